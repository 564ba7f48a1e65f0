#pragma once
/*
 * What the agent says about a file (a record of STAT, LIST or WATCH), and E2B's EntryInfo made of
 * it. Names are the sandbox's, of any bytes: what is no UTF-8 is written as U+FFFD.
 */
#include "base/buf.h"
#include "wire/request.h"

#include <stdbool.h>
#include <stdint.h>

enum { FINFO_XATTRS_MAX = 64 };
#define FINFO_METADATA "user.e2b."

struct finfo_text {
	const char *p; /* borrowed from the record; NULL = absent */
	size_t n;
};
struct finfo {
	struct finfo_text name, target, owner, group, real, xattr[FINFO_XATTRS_MAX];
	uint32_t xattrs_n;
	uint64_t type, size, mode, uid, gid, mtime_ns, event, real_type, real_mode;
	bool has_type, has_real_type;
};

/* 0, -EPROTO. */
int must_check finfo_read(struct msg_reader *r, struct finfo *ret);
/* Append the object; path is absolute, its last part becomes the name. 0, -ENOBUFS, -ENOMEM. */
int must_check finfo_put(struct buf *b, const struct finfo *f, const char *path, size_t path_n);
