#pragma once
/* `brigd --dev`: a state folder, a key and a brig-spawn that end with the daemon. */
#include "api/api.h"

#include <sys/types.h>

struct dev {
	char dir[32]; /* "" = none */
	pid_t spawn;  /* 0 = none */
	int fd;	      /* the daemon's end of the pair with brig-spawn, owned; -1 = none */
};
#define DEV_INIT {.fd = -1}

/* Make the folder, and a configuration that serves from it on 127.0.0.1. port: 0 = a free one. pool: of each template. */
int must_check dev_folder(struct dev *v, struct config *c, uint16_t port, uint32_t pool, struct err *e);
/* Start brig-spawn: the one beside this program, else the one that is installed. */
int must_check dev_spawn(struct dev *v, struct err *e);
/* Make a key, print what a client's environment needs. */
int must_check dev_hello(struct daemon *d, const struct api *a, struct config *c, struct err *e);
/* Everything of it goes. */
void dev_done(struct dev *v);
