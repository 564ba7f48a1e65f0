#pragma once
/*
 * Files between this machine and a sandbox of a daemon. Trees and single files travel as the pack
 * stream (docs/pack.md) and are read and written by session/copy_in.h and copy_out.h, as those of
 * `brig run`: what a sandbox sends never leaves its destination.
 */
#include "client/api.h"

struct copying {
	struct client *c;
	const struct box_ref *box;
	const char *user;
	uint64_t max_bytes; /* out of a sandbox */
	bool quiet;
};

/* "ID:PATH": the lengths of its parts, or false. A name with '/' before its ':' is a file here.
 * Pure. */
bool copying_split(const char *word, size_t *ret_id_n, const char **ret_path);
/*
 * The last component of a path, for a name below a folder: *ret "" = the path means a folder's
 * contents ("dir/.", "/", "."). -EINVAL for
 * "..", which names nothing. Pure.
 */
int must_check copying_name(const char *path, char ret[256]);

/* Of a path inside: 1 a folder, 0 a file or nothing that is there, -errno. */
int must_check copying_is_folder(const struct copying *k, const char *path, struct err *e);
/* src (a file or folder) to exactly path inside. */
int must_check copying_in(const struct copying *k, const char *src, const char *path,
			  struct err *e);
/* path inside to dst: see copy_out.h; name: for a dst that is a folder. */
int must_check copying_out(const struct copying *k, const char *path, const char *dst,
			   const char *name, struct err *e);
/* The bytes of standard input to a file inside, and of a file inside to standard output. */
int must_check copying_stdin(const struct copying *k, const char *path, struct err *e);
int must_check copying_stdout(const struct copying *k, const char *path, struct err *e);
