#pragma once
/*
 * Copying a file or folder out of a sandbox.
 *
 * The bytes are a pack stream that the sandbox made: hostile. Everything is created beneath the
 * destination, never through a symbolic link (openat2(2)); files appear whole (a hidden new file,
 * then rename); setuid, setgid and sticky can't be expressed; links that could lead out of the folder
 * are left out with a warning; amounts are limited before they are written.
 *
 * Destination: a single file goes to dst, or into dst if that is a folder, under `name`. A folder
 * becomes dst, or is merged into it if dst is a folder; files of the same name are replaced. The
 * folder above dst must exist. Folders keep the owner's permissions whatever their mode says.
 *
 * A copy that fails leaves what was complete by then, never half a file.
 */
#include "session/copy_walk.h"
#include "session/session.h"

/* What all copies out of one run may still bring, together. */
struct copy_room {
	uint64_t bytes, apparent, entries, folders; /* as max_bytes ... below */
};

struct copy_out_opts {
	const char *dst;       /* host path; NULL: write nothing (check, count, tee) */
	const char *name;      /* file name for dst/name; one component */
	struct walk_rules rules; /* exclude: not written, with everything below (gitignore: see flags) */
	uint64_t max_bytes;    /* of data; holes are not counted */
	uint64_t max_apparent; /* of file sizes with their holes */
	uint64_t max_entries;
	uint64_t max_folders;  /* of the entries: each takes a block of the host's disk */
	struct copy_room *room; /* taken from as well; borrowed, may be NULL */
	struct copy_warn warn;
	struct copy_tee *tee; /* keep a copy of the pack stream; borrowed, may be NULL */
};

struct copy_out; /* opaque */

/* opts is copied; dst, name and tee are borrowed until copy_out_free. Nothing is touched yet. */
int must_check copy_out_new(const struct copy_out_opts *opts, struct copy_out **ret, struct err *e);
/* Aborts the copy if it still runs (call before session_free). Accepts NULL. */
void copy_out_free(struct copy_out *c);

/* Start a PACK_OUT request for `path` inside, as `user` (NULL: default), flags REQ_GITIGNORE ... */
int must_check copy_out_open(struct copy_out *c, struct session *s, const char *path,
			     const char *user, uint32_t flags, struct err *e);
bool copy_out_ended(const struct copy_out *c);
/* After copy_out_ended: 0, or the first error of either side. */
int must_check copy_out_end(struct copy_out *c, struct err *e);

uint64_t copy_out_bytes(const struct copy_out *c);   /* data received */
uint64_t copy_out_entries(const struct copy_out *c); /* received, the ones left out too */
const struct copy_warn *copy_out_warnings(const struct copy_out *c);

/* What copy_out_open is made of: take in bytes of the stream. 0 or -errno, which is final. */
int must_check copy_out_feed(struct copy_out *c, const void *p, size_t n, struct err *e);
/* The stream has ended: 0 if it was complete. */
int must_check copy_out_finish(struct copy_out *c, struct err *e);
