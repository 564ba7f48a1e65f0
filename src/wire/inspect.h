#pragma once
/*
 * The process that reads HTTP, in the clear or inside TLS that ends there (brig-inspect,
 * src/inspect). It is there when a rule of the sandbox is about HTTP. One message per
 * SOCK_SEQPACKET record, numbers are never used twice.
 *
 * From whoever starts sandboxes, on INSPECT_CTL_FD. The worker believes this peer, but checks
 * sizes.
 *
 *   ATTACH   struct inspect_ask, text_n bytes of rules (as the gate gets them), secrets_n bytes of
 * secrets; as SCM_RIGHTS trust_n files with certificates (PEM) that upstream servers are verified
 * with POLICY   the same without files: other rules for a sandbox that is attached DETACH
 * everything of the sandbox is closed and forgotten
 *
 * A secret: two numbers (uint16_t, sizes), the reference as it stands in the rules, the value.
 *
 * From the gate, on INSPECT_PEER_FD (brig made the pair; the gate gets its end with the rules, wire/gate.h). A
 * connection of the sandbox whose verdict says `inspect`, or whose check is CHECK_HTTP, is handed
 * over as it was accepted, before a byte of it was read, counted by the gate but not yet recorded:
 *
 *   gate                                     worker
 *   TAKE flow, dest + client's socket  ───>  judges the client's first bytes, its first request
 *                                      <───  DIAL flow, what the ClientHello said: only when a
 * request is permitted resolves, judges addresses, records the connect, dials UP flow + connected
 * socket         ───>  TLS with the server, requests or NO_UP flow, reason              ───>
 * answers 502 to the client, then CLOSED <───  RECORD: one decision (see `what`); the gate adds
 * dest, rule, time, number <───  MOVED: bytes since the last time, a few times a second DROP flow
 * ───>  closes it at once (limits, policy, the end of the sandbox) <───  CLOSED flow, the rest of
 * the bytes, why: the last of this flow. Then the gate writes the close's record, if there was a
 * dial, and stops counting it
 *
 * The gate keeps no copy of a socket it has sent. At most one DIAL per flow. A flow's number is
 * never used again. A RECORD the gate has no room for: DROP. A message for the worker that finds
 * its socket full: the connection is denied
 * ("overload"). The end of a process closes all sockets it holds, and its peer sees the end of the
 * pair: the gate then denies what it would hand over ("overload"), the worker goes on only for its
 * control socket's sake.
 */
#include <stdint.h>

enum inspect_kind {
	/* from brig */
	INSPECT_ATTACH = 1, /* answered by ATTACHED or REFUSED */
	INSPECT_POLICY = 2, /* the same; REFUSED: the old rules go on */
	INSPECT_DETACH = 3, /* answered by DETACHED */
	/* from the gate */
	INSPECT_TAKE = 11,
	INSPECT_UP = 12,
	INSPECT_NO_UP = 13,
	INSPECT_DROP = 14,
	/* to brig */
	INSPECT_ATTACHED = 101,
	INSPECT_REFUSED = 102,
	INSPECT_DETACHED = 103,
	/* to the gate */
	INSPECT_DIAL = 111,
	INSPECT_RECORD = 112,
	INSPECT_MOVED = 113,
	INSPECT_CLOSED = 114,
};

enum {
	INSPECT_CTL_FD = 3,
	INSPECT_PEER_FD = 4,
	INSPECT_TEXT_MAX = 128 * 1024,
	INSPECT_SECRETS_MAX = 64 * 1024,
	INSPECT_TRUST_MAX = 2,
	INSPECT_CA_MAX = 2048,
	INSPECT_WHY_MAX = 256,
};

struct inspect_ask { /* from brig */
	uint32_t kind;
	uint32_t text_n, secrets_n;
	uint32_t trust_n;
	char sandbox[36]; /* id, NUL-terminated */
};

struct inspect_told { /* to brig */
	uint32_t kind;
	uint32_t ca_n; /* ATTACHED: bytes of `ca`; 0 = no rule ends TLS */
	char sandbox[36];
	char why[INSPECT_WHY_MAX];
	char ca[INSPECT_CA_MAX]; /* PEM: the sandbox's own authority, for its trust store */
};

struct inspect_hand { /* from the gate */
	uint32_t kind;
	uint16_t port; /* TAKE */
	uint16_t zero;
	uint64_t flow;
	char sandbox[36]; /* TAKE */
	char name[254];	  /* TAKE: canonical, see struct judge_dest; only named destinations are
			     handed over */
	char reason[34];  /* NO_UP, DROP: a word of the record's table */
};

enum inspect_what { INSPECT_REQUEST, INSPECT_CONNECT /* refused before a request was read */ };

struct inspect_tell { /* to the gate. Text is hostile, cut, NUL-terminated; "" = none */
	uint32_t kind;
	uint16_t what; /* RECORD: enum inspect_what */
	uint8_t allow; /* RECORD */
	uint8_t ech;   /* DIAL, and RECORD of a connect */
	uint64_t flow;
	uint64_t up, down; /* MOVED, CLOSED: bytes to and from the server since the last time */
	uint32_t status;   /* RECORD of a request: of the answer, 0 = none came */
	uint32_t zero;
	char reason[34];	 /* RECORD: a word of the record's table; CLOSED: why */
	char sni[256], alpn[64]; /* DIAL, and RECORD of a connect */
	char method[32], host[256], path[512];	 /* RECORD of a request */
	char inject_header[64], secret_ref[128]; /* RECORD: what was put in, never the secret */
};
