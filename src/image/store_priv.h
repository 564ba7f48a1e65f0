#pragma once
/* What the files of the store share: its folders, its intake, its trees. */
#include "image/image.h"

#include <stddef.h>
#include <sys/types.h>

struct contents; /* image/contents.h */

enum { STORE_TMP_NAME = 32 }; /* bytes of "tmp/<random>" */

/* The store's folder, made when absent (0700). An O_PATH-able folder descriptor, or -errno. */
int must_check store_open(struct err *e);
int must_check store_path(char dst[IMAGE_PATH_MAX], struct err *e);
/* Hold the lock of all changes of names and places; released by closing. */
int must_check store_lock(int store_fd, struct err *e);
/* A name below tmp/ that nobody has. 0 or -errno. */
int must_check store_tmp_name(char name[STORE_TMP_NAME]);
/* A new folder below tmp/, locked; its name and descriptor. */
int must_check store_tmp(int store_fd, char name[STORE_TMP_NAME], int *ret_fd, struct err *e);
/* Remove what dead makers left in tmp/; the store's lock is held while it is looked for, not while it is removed. */
void store_sweep(int store_fd);

/* The digest of the tree at dirfd, as docs/images.md defines it. known: contents whose sums are there already, and
 * room for more; NULL = everything is read. */
int must_check tree_digest(int dirfd, struct contents *known, char ret[IMAGE_DIGEST_LEN + 1], struct err *e);

/* The unpacker: from tar_fd into the folder dirfd, with the sums of what was written into known. Runs in the worker
 * process. */
int must_check intake_unpack(int tar_fd, int dirfd, const struct image_limits *lim, image_progress fn, void *arg,
			     struct contents *known, struct image_stats *st, struct err *e);
/* Before it reads: nothing but the folder, and no privilege that is not needed for it. 0 or -errno. */
int must_check intake_jail(int dirfd);

/* image.json and packages of an image whose folder is dirfd. */
int must_check info_write(int dirfd, const struct image_meta *m, const struct image_stats *st, const char *digest,
			  struct err *e);

/* Which other process holds a lock on the folder fd: 0 = none that can be seen. */
pid_t store_holder(int fd);

bool store_digest_ok(const char *text, size_t n); /* lower-case hexadecimal digits */
