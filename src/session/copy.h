#pragma once
/*
 * Copying files between the host and a sandbox: what copy_in.h and copy_out.h share.
 *
 * The host's caller drives both with its ordinary poll loop: the copy is the `arg` of a stream, its
 * stream_ops come from here, and every step happens inside session_io.
 */
#include "base/err.h"
#include "session/session.h"
#include "wire/request.h"

#include <stdbool.h>
#include <stdint.h>

/* What was left out, and why. Foreign names in text are escaped already. */
struct copy_warn {
	void (*fn)(void *arg, const char *text); /* may be NULL */
	void *arg;
	uint32_t shown; /* calls so far; stops at COPY_WARN_MAX */
	uint64_t count; /* all of them */
};
enum { COPY_WARN_MAX = 20 };
void copy_warn(struct copy_warn *w, const char *path, const char *why);

/*
 * A copy of a pack stream's bytes in an unnamed memory file, for a later comparison.
 * fd is owned, -1 when unused.
 */
struct copy_tee {
	int fd;
	uint64_t max; /* bytes */
	uint64_t len;
};
#define COPY_TEE_INIT ((struct copy_tee){.fd = -1})
int must_check copy_tee_open(struct copy_tee *t, uint64_t max, struct err *e);
/* Append. -EFBIG past max. */
int must_check copy_tee_put(struct copy_tee *t, const void *p, size_t n, struct err *e);
void copy_tee_close(struct copy_tee *t);

/* Ask the agent for a pack stream (docs/pack.md): REQ_PACK_IN or REQ_PACK_OUT of path inside, as `user` (NULL = the
 * sandbox's). ops, arg, *ret: as session_open. */
int must_check copy_open(struct session *s, enum req_kind kind, const char *path, const char *user, uint32_t flags,
			 const struct stream_ops *ops, void *arg, struct stream **ret, struct err *e);
