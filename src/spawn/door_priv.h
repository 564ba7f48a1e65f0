#pragma once
#include "base/err.h"

#include <sys/un.h>

/* The folder of doors, opened (made when `make`); -ENOENT when there is none. */
int must_check door_dir(bool make, int *ret_fd, struct err *e);
/* The address of a door in it: by descriptor, since paths may be longer than an address. False: no id can be so. */
bool door_addr(int dir_fd, const char *id, struct sockaddr_un *ret);
/* Room for a whole question or answer, which the kernel takes as one. */
void door_room(int fd);
/* The other end is the same user or root. */
bool door_peer_good(int fd);
