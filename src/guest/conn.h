#pragma once
/* A connection from a process of the sandbox's (guest/sudo.h), as PID 1 takes from it and lets it go. */
#include <stddef.h>
#include <sys/types.h>

/* As recv(2), without waiting. */
ssize_t conn_recv(int fd, void *dst, size_t n);
/* Close fd, and all that is still in it. Nobody is to read from it any more. */
void conn_drop(int fd);
