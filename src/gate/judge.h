#pragma once
/*
 * What the gate's process asks of its pure part: one canonical destination, one decision. Everything
 * here is without system calls but for the clock of a record.
 */
#include "base/buf.h"
#include "base/err.h"
#include "net/net.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { RESOLVE_ADDRS_MAX = 16, RESOLVE_CNAMES_MAX = 8 };

/* What a name was resolved to. */
struct resolve_addr {
	bool v6;
	uint8_t a[16]; /* network order; IPv4 in the first four */
};

struct resolve_result {
	int err;           /* 0, ENOENT (no such name or no address), ETIMEDOUT, EIO */
	uint32_t n;
	struct resolve_addr addr[RESOLVE_ADDRS_MAX];
	uint32_t cnames_n; /* names passed through on the way */
	char cname[RESOLVE_CNAMES_MAX][256];
};

struct judge; /* the rules of one sandbox and the names it was given addresses for */

enum { JUDGE_NAME_MAX = 253 };

/* Where a connection wants to go. Made once, then only passed on. */
struct judge_dest {
	bool named;    /* by a made-up address: name is what counts */
	uint16_t port;
	char name[JUDGE_NAME_MAX + 1]; /* canonical */
	struct resolve_addr orig;      /* what was connected to */
};

enum judge_check { CHECK_NONE, CHECK_TLS, CHECK_HTTP, CHECK_SSH, CHECK_POSTGRES };

struct judge_verdict {
	bool allow;
	const char *reason; /* static: a word of the record's table */
	const char *rule;   /* the rule's id, of the judge's memory; NULL = none */
	uint32_t rule_nr;   /* valid when allow */
	enum judge_check check;
};

struct judge_limits {
	uint32_t max_conns, conn_rate_per_s, burst;
	uint64_t bytes_up, bytes_down;
	uint32_t idle_s, max_conn_s, connect_timeout_ms;
	uint32_t kill_after; /* denials, 0 = never */
};

struct judge_record {
	const char *event;  /* "connect", "dns", "packet", "close" */
	bool allow;
	const char *reason, *rule;
	const struct judge_dest *dest; /* NULL = none */
	const char *asked;  /* dns: the name as it came, hostile; asked_n bytes */
	size_t asked_n;
	const char *transport; /* "tcp", "udp", "icmp", "other" */
	const struct resolve_result *resolved;
	const struct resolve_addr *dialed;
	const char *sni;    /* hostile text, or NULL */
	uint64_t bytes_up, bytes_down, dur_ms;
	const char *close_reason;
};

int must_check judge_new(const char *text, size_t n, struct judge **ret, struct err *e);
void judge_free(struct judge *j);
const struct judge_limits *judge_limits(const struct judge *j);
/* The resolvers the rules name, comma-separated; NULL = the host's. */
const char *judge_resolvers(const struct judge *j);
/* The addresses TCP may be asked for: made-up ones and the ranges of rules. Their number, UINT32_MAX = more than max. */
uint32_t judge_ranges(const struct judge *j, struct net_range *out, uint32_t max);
/* Where *orig, port leads: fills *ret. False: a made-up address that stands for nothing. */
bool judge_dest(const struct judge *j, const struct resolve_addr *orig, uint16_t port, struct judge_dest *ret);
void judge_decide(const struct judge *j, const struct judge_dest *d, struct judge_verdict *ret);
/* May the rule's connection be made to this address? */
bool judge_addr(const struct judge *j, uint32_t rule_nr, const struct resolve_addr *a);
/* First bytes of the client against what the rule says they are: 0 = more is needed, 1 = good, -1 = not,
 * with *reason. *sni (size 256) as text, possibly empty. */
int judge_first(enum judge_check c, const struct judge_dest *d, const uint8_t *p, size_t n, const char **reason,
		char *sni);
struct judge_dns {
	bool denied;
	const char *reason; /* static */
	const char *rule;   /* of the judge's memory, or NULL */
	char asked[256];    /* as it came, hostile; asked_n bytes */
	size_t asked_n;
};
/* Answer one DNS message: the answer's size, 0 = none at all (no question of ours). */
size_t judge_dns(struct judge *j, const uint8_t *q, size_t n, uint8_t *out, size_t size, struct judge_dns *ret);
/* One JSON line, with its end. 0 or -ENOBUFS. */
int must_check judge_line(const struct judge_record *r, const char *sandbox, const char *tier, uint64_t seq,
			  struct buf *out);
