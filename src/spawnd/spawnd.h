#pragma once
/*
 * brig-spawn: starts the sandboxes that brigd asks for (wire/spawnd.h), each with a keeper of its own, and ends them. It is
 * the one part of the daemon with privileges, so it is small, single-threaded, and reads nothing that comes from inside
 * a sandbox. Its death harms no sandbox: the next one finds them again. docs/daemon.md describes it.
 */
#include "core/config.h"
#include "wire/spawnd.h"

#include <sys/types.h>

struct spawnd_args {
	const struct config *config; /* borrowed */
	int listen_fd; /* SOCK_SEQPACKET, listening, non-blocking; -1 = none */
	int conn_fd;   /* a connection there is already, whose end ends brig-spawn and its sandboxes (--dev); -1 = none */
	int box_fd;    /* the folder of sockets and ends */
	const char *box; /* its path */
	uid_t client_uid; /* who may ask, and call the sandboxes, beside root and ourselves */
};

/* Open the folder of sockets and ends: path, or NULL for <run>/box; made if it is not there. *ret is its path. */
int must_check spawnd_box_folder(const char *path, int *ret_fd, char *ret, size_t size, struct err *e);
/* Only one brig-spawn has the folder, as long as *ret is open. Waits a moment for one that was just killed. */
int must_check spawnd_lock(int box_fd, int *ret_fd, struct err *e);
/* Serve until SIGTERM or SIGINT (sandboxes live on unless there is a conn_fd) or the end of conn_fd. */
int must_check spawnd_main(const struct spawnd_args *a, struct err *e);

/* The settings of a sandbox of this template; ask NULL = as far as they can be told without one (for checks). The image is
 * looked up and held only with an ask. To be released by spec_done whatever comes back. */
int must_check spawnd_spec(const struct config_template *t, const struct spawnd_ask *ask, const char *text,
			   struct spec *ret, struct err *e);
