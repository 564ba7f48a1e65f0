#pragma once
/*
 * What brigd asks of brig-spawn: one message per record of a unix SOCK_SEQPACKET socket, in both directions a header and
 * text_n bytes of text. Pure layout; both ends check every field. brig-spawn holds its peer for hostile and
 * believes nothing but the socket's credentials (root, its own uid, and the `user` of the configuration).
 *
 * Every ask is answered by exactly one tell of kind REPLY with its seq, LIST by as many as there are entries (kind ENTRY,
 * same seq) before it. A START is answered when the sandbox is ready for calls (wire/call.h on the socket
 * named below) or has failed, other asks meanwhile. ENDED comes unasked, to every connection, when a sandbox has ended.
 *
 * Sockets and ends: a sandbox `id` is served on <box>/<id>.sock, <box> is told by PING. Whoever loses the connection
 * asks LIST after the next one: what it misses there has never started or was forgotten.
 */
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum spawnd_op {
#define OP(id, nr, text, what, safe) SPAWND_##id = nr,
#include "wire/spawnd_ops.def"
#undef OP
};

enum {
	SPAWND_VERSION = 1,
	SPAWND_ID_MAX = 32,
	SPAWND_NAME_MAX = 64,    /* bytes of a template's name, of a tenant's */
	SPAWND_TEXT_MAX = 65536, /* no row of the table has more */
	SPAWND_END_MAX = 4096,
};

/* START, EGRESS: what may leave. */
enum spawnd_egress {
	SPAWND_EGRESS_TEMPLATE = 0, /* what the template's profile says; no text */
	SPAWND_EGRESS_NONE = 1,     /* nothing; no text */
	/* The template's rules and more denials: text is a document as in brig-egress(5) with `version` and `deny` alone. */
	SPAWND_EGRESS_NARROW = 2,
	/* Text is such a document in place of the template's rules, with `version`, `deny` and `rules` of `id`, `host`, `cidr`,
	 * `ports` and `protocol`. ERR_DENIED unless the template has `egress: any`. */
	SPAWND_EGRESS_SET = 3,
};

struct spawnd_ask {
	uint32_t op, seq;    /* enum spawnd_op; seq: any number, told back */
	uint32_t text_n;     /* bytes after this header */
	uint32_t egress;     /* START, EGRESS: enum spawnd_egress; else 0 */
	uint64_t timeout_ms; /* START: life span from now, 1 to the configuration's max_timeout, 0 = none (a sandbox for the
			      * pool, whose life begins when it is claimed); else 0 */
	char id[SPAWND_ID_MAX + 4];         /* START, KILL, END, FORGET, EGRESS: [a-z0-9], 8 to 32; else empty */
	char template[SPAWND_NAME_MAX + 4]; /* START: a name or alias; else empty */
	char tenant[SPAWND_NAME_MAX + 4];   /* START: [A-Za-z0-9._-]; else empty */
	uint32_t zero;
};

enum spawnd_kind {
	SPAWND_REPLY = 1, /* to seq. PING: text is the folder of the sandboxes' sockets; END: text is the end */
	SPAWND_ENTRY = 2, /* one sandbox of a LIST */
	SPAWND_ENDED = 3, /* unasked: id has ended; text is its end, one JSON object (empty: the keeper was lost) */
};

enum spawnd_state { SPAWND_STARTING = 1, SPAWND_LIVE = 2, SPAWND_OVER = 3 };

struct spawnd_tell {
	uint32_t kind, seq; /* seq 0 for ENDED */
	int32_t ret;        /* REPLY: 0, or the -errno of a failure */
	uint32_t fault;     /* REPLY: enum err_kind, 0 when ret is 0 */
	uint32_t text_n;    /* bytes after this header */
	uint32_t value;     /* ENTRY: enum spawnd_state; REPLY to PING: SPAWND_VERSION; to START: enum runner_weaker bits */
	int32_t pid;        /* ENTRY and REPLY to START: of the keeper; 0 = none */
	char id[SPAWND_ID_MAX + 4];
	uint64_t time_ms;   /* ENTRY and REPLY to START: when it was started, since the epoch */
	char template[SPAWND_NAME_MAX + 4]; /* ENTRY: its real name */
	char tenant[SPAWND_NAME_MAX + 4];   /* ENTRY */
	char why[256];                      /* REPLY with a failure: words for a person */
};
_Static_assert(sizeof(struct spawnd_ask) == 200 && sizeof(struct spawnd_tell) == 464, "headers without holes");

/*
 * The n bytes that came: 0 and *text (inside p, text_n bytes, no NUL after it); -EPROTO with why for one that is malformed:
 * sizes, an unknown op, a field that is not the op's, a string without end or with other letters. *ret is a copy.
 */
int must_check spawnd_ask_check(const void *p, size_t n, struct spawnd_ask *ret, const char **text, struct err *e);
/* The same for the other direction. */
int must_check spawnd_tell_check(const void *p, size_t n, struct spawnd_tell *ret, const char **text, struct err *e);
/* What an id must look like. */
bool spawnd_id_ok(const char *id);
