#pragma once
/* Opening paths that foreign bytes name. */
#include <sys/types.h>

/*
 * openat2(2) of a relative path below dirfd: fails with -EXDEV where it would leave the folder, with
 * -ELOOP where any component, also the last, is a symbolic link. O_CLOEXEC and O_NOCTTY are added.
 * mode is used with O_CREAT only. A new descriptor owned by the caller, or -errno.
 */
int path_open_beneath(int dirfd, const char *path, int flags, mode_t mode);
