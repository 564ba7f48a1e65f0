#pragma once
/* The HTTP side of brigd: one server on one socket, in the daemon's loop. */
#include "daemon/daemon.h"

struct api;

/* What of the configuration only the server can tell to be wrong: certificate and key. Opens and keeps nothing. */
int must_check api_check(const struct config *c, struct err *e);
/* Listen where the configuration says. The daemon is borrowed. */
int must_check api_open(struct daemon *d, struct api **ret, struct err *e);
/* The port that is listened on, 0 for a unix socket. */
uint16_t api_port(const struct api *a);
/* Do what HTTP has to do now. Returns milliseconds until there is more to do by the clock, -1 = never. */
int api_turn(struct api *a);
/* Accept no new connections. */
void api_quiesce(struct api *a);
/* Requests under way, and answers of which a part waits to be sent. */
uint32_t api_requests(const struct api *a);
void api_close(struct api *a); /* accepts NULL */
