#pragma once
/*
 * Messages inside frames: requests (OPEN), results (RESULT) and records (on CHAN_OUT).
 *
 * A message is a list of fields {u16 number, u16 zero, u32 length, bytes}. Numbers travel as
 * 8-byte little-endian values. request_fields.def holds every field with its limits;
 * msg_next enforces them, so a field that came out of it is well-formed. Unknown fields, repeated
 * single fields and trailing bytes make a message invalid.
 *
 * A record on CHAN_OUT is a u32 length (1 .. MSG_RECORD_MAX) followed by a message of that length.
 */
#include "base/buf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MSG_RECORD_MAX = 16 * 1024, MSG_ARGS_MAX = 65536 };

enum req_kind {
#define KIND(id, nr, text) REQ_##id = nr,
#include "wire/request_kinds.def"
#undef KIND
};

enum msg_field {
#define FIELD(id, nr, type, max, repeat, text) F_##id = nr,
#include "wire/request_fields.def"
#undef FIELD
};

enum req_flags {
	REQ_TTY = 1u << 0,       /* exec: a terminal for the three standard descriptors */
	REQ_STDIN = 1u << 1,     /* exec: stdin follows; without it stdin is /dev/null */
	REQ_FD_STDIO = 1u << 2,  /* exec: stdin (if REQ_STDIN), stdout, stderr came as descriptors */
	REQ_FD_LEAF = 1u << 3,   /* the cgroup leaf came as a descriptor, after the stdio ones */
	REQ_NOFOLLOW = 1u << 4,  /* files: act on a symbolic link itself */
	REQ_PARENTS = 1u << 5,   /* files: make missing parent folders */
	REQ_APPEND = 1u << 6,    /* write: at the end */
	REQ_RECURSIVE = 1u << 7, /* remove, watch: everything below */
	REQ_KEEP_OWNER = 1u << 8, /* pack: carry numeric owners (default: the request's user) */
	REQ_GITIGNORE = 1u << 9, /* pack out: leave out what .gitignore files name */
	REQ_SOLE = 1u << 10,     /* exec: the sandbox lives only for this one: no guard needed without a leaf */
	REQ_FD_MEASURE = 1u << 11, /* exec: two descriptors came last, a socket and a file of the host: see wire/probe.h */
	REQ_DETAIL = 1u << 13,   /* stat, list, watch: records also have GROUP, XATTR, REAL; of a watch all that STAT has */
	REQ_IN_PLACE = 1u << 14, /* write: the file that is there, from its beginning, instead of a new one in its place */
};

enum result_how {
	HOW_DONE = 0,   /* a file or session request that worked */
	HOW_EXIT = 1,   /* CODE is the exit code */
	HOW_SIGNAL = 2, /* CODE is the signal */
	HOW_ERROR = 3,  /* ERRNO and TEXT; for an exec ENOENT means not found, EACCES and ENOEXEC not executable */
};

enum watch_event {
	WATCH_CREATE = 1,
	WATCH_WRITE = 2,
	WATCH_REMOVE = 3,
	WATCH_RENAME = 4, /* NAME old, TARGET new when both lie below the path */
	WATCH_CHMOD = 5,
	WATCH_OVERFLOW = 6, /* events were lost: list again */
};

enum metric { METRIC_CPU_US, METRIC_MEM_USED, METRIC_PROCS, METRIC_DISK_USED, METRIC_DISK_TOTAL, METRIC_UPTIME_US, METRIC_COUNT };

/* ---- writing: appends to a buf; errors stick and are reported by msg_end ---- */
struct msg_writer {
	struct buf *b;
	int err; /* 0 or the first -errno */
};
void msg_u64(struct msg_writer *w, enum msg_field f, uint64_t v);
void msg_str(struct msg_writer *w, enum msg_field f, const char *s);
void msg_bytes(struct msg_writer *w, enum msg_field f, const void *p, size_t n);

/* ---- reading ---- */
struct msg_reader {
	const uint8_t *p;
	size_t left;
	uint64_t seen; /* single fields met so far */
};
struct msg_item {
	enum msg_field field;
	uint64_t u64;        /* U64 fields */
	const uint8_t *data; /* STR and BYTES: borrowed, not NUL-terminated */
	size_t len;
};
static inline struct msg_reader msg_reader(const void *p, size_t n)
{
	return (struct msg_reader){.p = (const uint8_t *)p, .left = n};
}
/* 1 and the next field, 0 at the end, -EPROTO for a malformed message. */
int msg_next(struct msg_reader *r, struct msg_item *ret);
/* Copy a STR item as a C string into dst[size]. 0, -ENAMETOOLONG. */
int must_check msg_copy(const struct msg_item *it, char *dst, size_t size);

/* Append a record: its length and the message body. 0, -ENOBUFS, -ENOMEM, -EMSGSIZE. */
int must_check record_put(struct buf *out, const struct buf *body);
/* The first record of p[0..n): bytes used, 0 = more input needed, -EPROTO. */
int record_next(const void *p, size_t n, struct msg_reader *ret);

/* ---- the HELLO payload ---- */
enum { HELLO_MAGIC = 0x47495242 /* "BRIG" */, HELLO_VERSION = 1, HELLO_LEN = 16 };
enum hello_features { HELLO_FD_PASS = 1u << 0 };
void hello_encode(uint8_t dst[HELLO_LEN], uint32_t features);
/* 0 and the peer's features, -EPROTO: no agent, -EPROTONOSUPPORT: no common version. */
int hello_decode(const void *p, size_t n, uint32_t *ret_features);
