#pragma once
/* What the parts of the unpacker share: one stream being unpacked below one folder. */
#include "image/store_priv.h"
#include "parse/tar.h"

#include <sys/types.h>

enum { UNPACK_IN_SIZE = 64 * 1024 };

struct folder {
	char *path;
	size_t turn; /* when it came */
	uint32_t mode, uid, gid;
	int64_t mtime;
};

struct unpack {
	int in, root;
	bool owners; /* root: owners are kept */
	struct contents *known;
	uint8_t *buf;
	size_t at, have;
	bool eof;
	char parent[TAR_PATH_MAX]; /* the folder parent_fd is open on */
	int parent_fd;		   /* -1 = none */
	struct folder *folders;
	size_t folders_n, folders_cap;
	struct image_limits lim;
	struct image_stats *st;
	image_progress fn;
	void *arg;
	uint64_t told;
	struct tar tar;
	struct tar_entry entry;
	struct err *e;
};

/* The stream is hostile, or this machine failed: the error, with the entry's name. */
int unpack_refuse(struct unpack *u, const char *path, const char *why);
int unpack_cut_off(struct unpack *u, const char *path); /* the stream ends too early: -ENODATA */
int unpack_broke(struct unpack *u, const char *path, int r);

/* ---- unpack_stream.c ---- */
/* Up to n bytes that are there, at least one, valid until the next call; 0 at the end; -errno. */
ssize_t must_check unpack_some(struct unpack *u, const uint8_t **ret, size_t n);
/* Exactly n bytes into dst. 1 = there, 0 = the stream ended before the first, -errno. */
int must_check unpack_all_of(struct unpack *u, uint8_t *dst, size_t n);
/* Drop what fills n bytes up to whole blocks. */
int must_check unpack_skip_padding(struct unpack *u, uint64_t n);

/* ---- unpack_folders.c ---- */
/* A folder below dirfd ("" = itself), no link followed and none left; -errno. */
int unpack_beneath(int dirfd, const char *path);
/* Remember what a folder is to be in the end. */
int must_check unpack_note_folder(struct unpack *u, const struct tar_entry *t);
/* The folder an entry lies in, made when nobody described it; *ret_name is its last component,
 * within path, which is as it was on return. A descriptor that stays u's, or -errno. */
int must_check unpack_parent(struct unpack *u, char *path, const char **ret_name);
int must_check unpack_put_folder(struct unpack *u, const struct tar_entry *t, int dirfd,
				 const char *name);
/* Modes, owners and times of all of them. */
int must_check unpack_finish_folders(struct unpack *u);
void unpack_forget_folders(struct unpack *u);
