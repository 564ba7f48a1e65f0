#pragma once
/* Small files and descriptors. Every function returns 0 or a count, or -errno. */
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Write all of p to fd, restarting on EINTR and short writes. */
int file_write_all(int fd, const void *p, size_t n);
/* Open relative to dirfd, write text once, close: for /proc and cgroup files. */
int file_put(int dirfd, const char *path, const char *text);
/* Read a small file whole as a C string into dst[size]; bytes read. -EFBIG when it does not fit. */
ssize_t file_get(int dirfd, const char *path, char *dst, size_t size);
/* As file_get, for a file that holds one decimal number. -EINVAL when it does not. */
int file_get_u64(int dirfd, const char *path, uint64_t *ret);
