#pragma once
/* What the server's files share. */
#include "api/request.h"

struct api {
	struct source events; /* MHD's epoll descriptor, not ours to close */
	struct daemon *d;
	struct MHD_Daemon *mhd;
	uint16_t port;
	uint32_t requests;
	unsigned connections; /* at once */
};

/* MHD's reader of the answer's body: what the keeper sends. */
ssize_t answer_read(void *cls, uint64_t pos, char *dst, size_t n);
void server_events(struct source *s, uint32_t events);

/* ---- listen.c ---- */
/* "ADDRESS:PORT", "[ADDRESS]:PORT" or "unix:/PATH". *ret_port 0 for the last. */
int must_check listen_open(const char *where, int *ret_fd, uint16_t *ret_port, struct err *e);
/* A PEM file as a C string, at most 64 KiB. */
int must_check listen_read_pem(const char *path, char **ret, struct err *e);
/* How many connections the limit of descriptors leaves room for; it is raised to its maximum first. */
unsigned listen_connections(void);
