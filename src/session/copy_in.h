#pragma once
/*
 * Copying a host file or folder into a sandbox.
 *
 * copy_in_new looks at the whole source and refuses what is too large before anything is sent.
 * copy_in_open then sends it over a session as the reading of a PACK_IN request:
 *
 *      copy_in_new(...); copy_in_open(...);
 *      while (!copy_in_ended(c)) { poll; session_io }      -- several copies may run at once
 *      r = copy_in_end(c, &e); copy_in_free(c);
 *
 * Symbolic links are never followed, except in the folders of the source's own path. A link inside
 * is carried as a link if it cannot lead out of the source (pack_link_ok), else left out. Unreadable
 * files are an error; sockets, pipes and devices are left out with a warning.
 */
#include "session/copy_walk.h"
#include "session/session.h"

struct copy_in_opts {
	struct walk_rules rules;
	uint64_t max_bytes;   /* of file data (holes not counted) */
	uint64_t max_entries; /* files, folders and links */
	struct copy_warn warn;
	struct copy_tee *tee; /* keep a copy of the pack stream; borrowed, may be NULL */
};

struct copy_in; /* opaque */

/* Open and measure src. opts is copied, what it points to is borrowed until copy_in_free.
 * -EFBIG (ERR_LIMITED) above a limit; the message names the source and the numbers. */
int must_check copy_in_new(const char *src, const struct copy_in_opts *opts, struct copy_in **ret,
			   struct err *e);
/* Aborts the copy if it still runs (call before session_free). Accepts NULL. */
void copy_in_free(struct copy_in *c);
uint64_t copy_in_bytes(const struct copy_in *c);   /* file data measured */
uint64_t copy_in_sent(const struct copy_in *c);    /* file data handed to the stream so far */
uint64_t copy_in_entries(const struct copy_in *c); /* measured */
bool copy_in_is_dir(const struct copy_in *c);
const struct copy_warn *copy_in_warnings(const struct copy_in *c);

/* Start the request: unpack at `path` inside, as `user` (NULL: the sandbox's default), with
 * flags (REQ_PARENTS ...). */
int must_check copy_in_open(struct copy_in *c, struct session *s, const char *path, const char *user,
			    uint32_t flags, struct err *e);
bool copy_in_ended(const struct copy_in *c);
/* After copy_in_ended: 0, or the first error of either side. */
int must_check copy_in_end(struct copy_in *c, struct err *e);

/* What copy_in_open is made of: append the next part of the pack stream to b (which needs room for
 * COPY_IN_STEP bytes). 1: more to come, 0: the stream is complete, -errno. */
enum { COPY_IN_STEP = 96 * 1024 };
int copy_in_fill(struct copy_in *c, struct buf *b, struct err *e);
