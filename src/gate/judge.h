#pragma once
/*
 * What the processes that connect for a sandbox ask of their pure part: one canonical destination, one decision. Everything
 * here is without system calls but for the clock of a record.
 *
 * The rules come as text that brig made (judge_new; docs/egress.md): trusted to be what the caller wants, checked all the same.
 * Destinations, names and first bytes come from the sandbox, addresses from resolvers: hostile.
 */
#include "base/buf.h"
#include "base/err.h"
#include "net/net.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

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

struct judge; /* the rules of one sandbox, the names it was given addresses for, what it used up */

enum { JUDGE_NAME_MAX = 253, JUDGE_ID_MAX = 32, JUDGE_WORD_MAX = 36 };

/* Where a connection wants to go. Made once, then only passed on. */
struct judge_dest {
	bool named;    /* by a made-up or a pinned address: name is what counts */
	bool pinned;   /* by an address the name was answered with */
	bool choice;   /* pinned, and the address stands for several names: see judge_pick */
	uint16_t port;
	char name[JUDGE_NAME_MAX + 1]; /* canonical */
	struct resolve_addr orig;      /* what was connected to */
};

/* What the first bytes of the client must be. POSTGRES_TLS: its ClientHello, once the server has agreed to TLS with 'S'. */
enum judge_check { CHECK_NONE, CHECK_TLS, CHECK_HTTP, CHECK_SSH, CHECK_POSTGRES, CHECK_POSTGRES_TLS };

/* Of a sandbox (judge_limits) or of one connection (in the verdict: the rule's, where it has its own). */
struct judge_limits {
	uint32_t max_conns, conn_rate_per_s, burst; /* open at once; new ones per second */
	uint64_t bytes_up, bytes_down; /* of all connections of the sandbox, or of the rule, together; 0 = no limit */
	uint32_t idle_s, max_conn_s, connect_timeout_ms; /* of each connection; 0 = no limit, but for the timeout */
	uint32_t requests_per_min; /* of an HTTP rule; 0 = no limit */
	uint32_t kill_after;       /* denials that end the sandbox, 0 = never */
};

struct judge_verdict {
	bool allow;
	bool would_deny;    /* permitted only because everything is (default: audit) */
	bool inspect;       /* TLS ends here: the worker decides each request (judge_http) */
	bool ech_allow;     /* a ClientHello with encrypted parts passes */
	const char *reason; /* static: a word of gate/reasons.def */
	char rule[JUDGE_ID_MAX + 1]; /* the rule's id; "" = none */
	uint32_t rule_nr;   /* valid when allow, and only with the judge that said so */
	enum judge_check check;
	struct judge_limits limits; /* of this connection; sandbox-wide fields are 0 unless the rule has its own */
};

/* What was seen of the client's first bytes. Hostile text, cut. */
struct judge_hello {
	char sni[256]; /* or HTTP's Host */
	char alpn[64]; /* commas between */
	bool ech;
	bool tls_next; /* postgres: TLS was asked for; see CHECK_POSTGRES_TLS */
};

/* ---- rules ---- */

int must_check judge_new(const char *text, size_t n, struct judge **ret, struct err *e);
/* Whether judge_new would take it. If not, *line is the number of the line, 0 when it is no single one. */
int must_check judge_check(const char *text, size_t n, uint32_t *line, struct err *e);
void judge_free(struct judge *j);
/*
 * New rules take over from old ones while the sandbox runs: names keep their addresses, budgets what was used; the
 * generation is one more. -EINVAL when the address pools or the way names are answered differ: then nothing changed, and old goes on. Afterwards old is
 * only good for judge_free, and each connection must be decided again (judge_decide; its rule_nr is void).
 */
int must_check judge_adopt(struct judge *j, struct judge *old);
uint32_t judge_generation(const struct judge *j); /* 1, 2, ... */
const struct judge_limits *judge_limits(const struct judge *j);
/* The resolvers the rules name, comma-separated; NULL = the host's. */
const char *judge_resolvers(const struct judge *j);
/* The addresses TCP may be asked for: made-up ones and the ranges of rules. Their number, UINT32_MAX = more than max. */
uint32_t judge_ranges(const struct judge *j, struct net_range *out, uint32_t max);

/* ---- decisions ---- */

/* Where *orig, port leads: fills *ret. False: a made-up address that stands for nothing. */
bool judge_dest(const struct judge *j, const struct resolve_addr *orig, uint16_t port, struct judge_dest *ret);
/*
 * Which of several names is meant (d->choice), by what the client says first: 0 = more is needed, 1 = found, *d is it,
 * -1 = none, or it cannot be told, with *reason. What was found is to be decided and checked as any other.
 */
int judge_pick(const struct judge *j, struct judge_dest *d, const uint8_t *p, size_t n, const char **reason);
void judge_decide(const struct judge *j, const struct judge_dest *d, struct judge_verdict *ret);
/*
 * May the connection that v permits be made to this address? `ours`: it is one of this host's own, which the caller can
 * tell and the rules cannot. When not, *reason is a word of gate/reasons.def.
 */
bool judge_addr(const struct judge *j, const struct judge_dest *d, const struct judge_verdict *v,
		const struct resolve_addr *a, bool ours, const char **reason);
/* A rule may dial another address than was asked for: *a becomes that one. */
void judge_local(const struct judge *j, const struct judge_verdict *v, struct resolve_addr *a);
/* Is there such a rule? */
bool judge_has_local(const struct judge *j);
/* First bytes of the client against what the rule says they are (c: v->check, or POSTGRES_TLS later): 0 = more is needed,
 * 1 = good, -1 = not, with *reason. */
int judge_first(enum judge_check c, const struct judge_verdict *v, const struct judge_dest *d, const uint8_t *p,
		size_t n, const char **reason, struct judge_hello *ret);

/* ---- HTTP: what a rule says of requests, for whoever reads them ---- */

enum { HTTP_WORDS_MAX = 16, HTTP_WORD_MAX = 24, HTTP_PATHS_MAX = 64, HTTP_INJECT_MAX = 8 };
struct judge_inject {
	char *header;      /* lower case */
	char *format;      /* holds {secret} once */
	char *secret;      /* a reference (env:NAME, file:/PATH, ...), never the secret; for records too */
	char *placeholder; /* what the sandbox may write in its place; NULL = none */
	bool strip_client_value, redact_response;
};
struct judge_http {
	uint32_t methods_n, upgrades_n, paths_n, inject_n;
	char methods[HTTP_WORDS_MAX][HTTP_WORD_MAX];  /* none = all */
	char upgrades[HTTP_WORDS_MAX][HTTP_WORD_MAX]; /* lower case; none = no upgrade passes */
	char *paths[HTTP_PATHS_MAX];   /* patterns; none = all */
	uint64_t max_body_bytes;       /* 0 = no limit */
	bool raw_paths;                /* let odd paths pass: see judge_path */
	bool plaintext_inject;         /* inject over plain HTTP too */
	struct judge_inject inject[HTTP_INJECT_MAX];
};
/* The rule's, of the judge's memory; all zero when the rule says nothing of HTTP. rule_nr: of a verdict of this judge. */
const struct judge_http *judge_http(const struct judge *j, uint32_t rule_nr);
/* The i-th of all that the rules inject, NULL behind the last. */
const struct judge_inject *judge_inject(const struct judge *j, uint32_t i);
/* What of the rules needs the process that reads HTTP, as bits. */
enum judge_reads { JUDGE_READS_HTTP = 1, JUDGE_READS_TLS = 2 };
unsigned judge_reads(const struct judge *j);
/* May this request be made? target: the path with its query, as sent. False with *reason. */
bool judge_request(const struct judge_http *h, const char *method, size_t method_n, const char *target,
		   size_t target_n, const char **reason);

/* ---- the proxy on the way out: the operator's, of the rules ---- */

struct judge_peer {
	struct resolve_addr addr;
	uint16_t port;
};
struct judge_proxy {
	struct judge_peer at; /* speaks HTTP in the clear (CONNECT); port 0 = there is none */
	bool names;           /* it is trusted with names: they are not resolved here, and no address of theirs is judged */
	char *secret;         /* where USER:PASSWORD is found (env:NAME, file:/PATH, ...), never itself; NULL = it wants none */
};
/* NULL = there is none. Of the judge's memory. */
const struct judge_proxy *judge_proxy(const struct judge *j);
/* The one that what v permits goes through; NULL = none, or the rule goes past it. */
const struct judge_proxy *judge_via(const struct judge *j, const struct judge_verdict *v);
enum { PROXY_ANSWER_MAX = 8192, PROXY_SECRET_MAX = 1024 };
/* The request for a tunnel to this address of d, or (to NULL) to its name. user_password: NULL = none. */
int must_check judge_proxy_ask(const struct judge_dest *d, const struct resolve_addr *to, const char *user_password,
			       struct buf *out);
/*
 * What it answered: the size of a head behind which the tunnel begins, 0 = more is needed, -ECONNREFUSED = it says no (*status),
 * -EBADMSG = what it says can be taken in two ways, or is not understood.
 */
ssize_t must_check judge_proxy_answer(const uint8_t *p, size_t n, uint32_t *status);

/* ---- what is used up: of the rule and of the sandbox ---- */

/* One connection more: number open at once, rate. False with *reason, and nothing was counted. */
bool judge_open(struct judge *j, const struct judge_verdict *v, uint64_t now_ms, const char **reason);
void judge_close(struct judge *j, const struct judge_verdict *v);
/* So many bytes moved since the last call. False with *reason ("bytes_up", "bytes_down"): a budget is spent. */
bool judge_moved(struct judge *j, const struct judge_verdict *v, uint64_t up, uint64_t down, const char **reason);
/* So many bytes may still move this way (up: to servers); UINT64_MAX = no limit. */
uint64_t judge_room(const struct judge *j, const struct judge_verdict *v, bool up);
/* After judge_adopt, what is open is counted anew: no rule has any, then each that is permitted still. */
void judge_recount(struct judge *j);
void judge_count(struct judge *j, const struct judge_verdict *v);
/* One HTTP request more. False with *reason. */
bool judge_request_rate(struct judge *j, const struct judge_verdict *v, uint64_t now_ms, const char **reason);

/* ---- DNS ---- */

struct judge_dns {
	bool denied;
	bool wait;          /* no answer yet: resolve `name`, then judge_dns_resolved with the same message */
	const char *reason; /* static */
	char rule[JUDGE_ID_MAX + 1];
	char name[JUDGE_NAME_MAX + 1]; /* canonical; "" = none */
	char asked[256];    /* as it came, hostile; asked_n bytes */
	size_t asked_n;
};
/* Answer one DNS message: the answer's size, 0 = none at all (no question of ours, or ret->wait). */
size_t judge_dns(struct judge *j, const uint8_t *q, size_t n, uint8_t *out, size_t size, struct judge_dns *ret);
/* Answer it now that its name was resolved. */
size_t judge_dns_resolved(struct judge *j, const uint8_t *q, size_t n, const struct resolve_result *res, uint8_t *out,
			  size_t size, struct judge_dns *ret);

/* ---- records ---- */

/* Who it is about. NULL = not known. */
struct judge_who {
	const char *task, *sandbox, *lifecycle, *lineage, *tier;
};
/* One HTTP request. Hostile text. */
struct judge_req {
	const char *method, *host, *path;
	uint32_t status;                  /* 0 = none */
	const char *inject_header, *secret_ref; /* NULL = nothing was injected */
};
struct judge_record {
	const char *event;  /* "connect", "request", "dns", "packet", "close", "policy" */
	bool allow;
	const char *reason; /* a word of gate/reasons.def */
	const char *rule;   /* "" or NULL = none */
	bool would_deny, fronting; /* fronting: what is inside cannot be seen, another name may be meant */
	const struct judge_dest *dest; /* NULL = none */
	const char *asked;  /* dns: the name as it came, hostile; asked_n bytes */
	size_t asked_n;
	const char *transport; /* "tcp", "udp", "icmp", "other" */
	const struct judge_peer *server; /* dns: the address that was asked, for `uid` only */
	const struct judge_peer *src, *local_out; /* in the sandbox's namespace; of the connection to the server */
	const struct resolve_result *resolved;
	uint64_t dns_ms;    /* with resolved */
	const struct resolve_addr *dialed;
	const struct judge_peer *proxy; /* through which it goes; NULL = none */
	const uint32_t *uid; /* hint: who inside has the socket, as numbered there; NULL = not known */
	const struct judge_hello *hello;
	const struct judge_req *req;
	const char *close_reason;          /* with what follows */
	uint64_t bytes_up, bytes_down, dur_ms;
	uint64_t connect_ms;               /* with local_out */
	const char *text;   /* policy: words for people */
	uint64_t suppressed;               /* equal ones that were only counted */
	bool alert;         /* set by judge_note */
};

/*
 * Take a record into account before it is written: counts refusals, sets r->alert and r->suppressed. False: an equal
 * refusal was written less than the window ago, so this one is only counted.
 */
bool judge_note(struct judge *j, struct judge_record *r, uint64_t now_ms);
/* A record that judge_note or judge_repeats gave found no room: it is counted, and told by judge_repeats as soon as that is
 * asked again. False: there is nothing to count it with. */
bool judge_unwritten(struct judge *j, const struct judge_record *r);
/* What was only counted and whose window is over (all: in any case), one a call. False: no more. *r points into the judge. */
bool judge_repeats(struct judge *j, uint64_t now_ms, bool all, struct judge_record *r);
uint64_t judge_denied(const struct judge *j); /* refusals so far, those only counted too */
/* A record among those of its sandbox. */
struct judge_place {
	uint64_t seq;          /* 0, 1, ...: of those that were written */
	const char *prev_hash; /* SHA-256 of the line before, without its end, in hex; "" = there is none */
	uint64_t lost;         /* what could be neither written nor counted since that line */
};
/* One JSON line, with its end, at most PIPE_BUF bytes. 0 or -ENOBUFS. */
int must_check judge_line(const struct judge *j, const struct judge_record *r, const struct judge_who *who,
			  const struct judge_place *at, struct buf *out);

enum judge_severity { SEVERITY_INFO, SEVERITY_LOW, SEVERITY_MEDIUM, SEVERITY_HIGH };
struct judge_reason {
	const char *word, *text;
	enum judge_severity severity;
};
/* The row of a reason, or NULL. */
const struct judge_reason *judge_reason(const char *word);
const char *judge_severity_name(enum judge_severity s);
