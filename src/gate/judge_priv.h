#pragma once
/* Inside the judge: rules, floor, names, what was used and refused. Pure. */
#include "base/num.h"
#include "gate/judge.h"

enum floor_class { FLOOR_OPEN, FLOOR_NAMED /* only by a rule that names the range */, FLOOR_NEVER };
enum floor_class floor_of(const struct resolve_addr *x);
bool addr_in(const uint8_t *a, const uint8_t *net, uint32_t bits);

struct net_of { /* a CIDR range */
	struct resolve_addr net;
	uint32_t bits;
};
int must_check net_parse(const char *s, size_t n, struct net_of *ret); /* an address is a range of one. -EINVAL */
bool net_has(const struct net_of *n, const struct resolve_addr *a);
void net_last(const struct net_of *n, uint8_t out[16]);

enum {
	RULE_PORTS_MAX = 16,
	RULE_NETS_MAX = 16,
	RULES_MAX = 4096,
	NAMES_MAX = 16384,
	NAMES_DEFAULT = 1024,
	WILD_NAMES_DEFAULT = 64,
	WILD_LABEL_DEFAULT = 32,
};
enum rule_kind { RULE_EXACT, RULE_ONE /* *.d */, RULE_MANY /* **.d */, RULE_CIDR };

struct rule_use {
	uint32_t conns;
	uint64_t up, down;
	uint64_t conn_parts, conn_at_ms; /* bucket of new connections; 0 = never filled */
	uint64_t req_parts, req_at_ms;   /* of requests */
};

struct rule {
	bool deny, audit, inspect, ech_allow;
	bool direct; /* not through the proxy */
	bool local; /* what goes to nets[0], one address, is dialled to local_to: the floor does not count */
	enum rule_kind kind;
	enum judge_check check;
	uint32_t ports_n, nets_n;
	uint32_t names_max, label_max; /* of names below a wildcard */
	uint32_t names;                /* handed out */
	uint32_t next;                 /* of the index: nr + 1 of the next with its slot, 0 = none */
	uint16_t first[RULE_PORTS_MAX], last[RULE_PORTS_MAX];
	struct net_of nets[RULE_NETS_MAX]; /* of a CIDR rule: [0] is the rule; else: exceptions from the floor */
	struct resolve_addr local_to;
	uint32_t name_n;
	char name[JUDGE_NAME_MAX + 1]; /* of a wildcard: without the stars and their dot; "" = every name */
	char id[JUDGE_ID_MAX + 1];
	struct judge_limits limits; /* 0 = as the sandbox's */
	struct judge_http *http;    /* owned, or NULL */
	struct rule_use use;
};

struct mapped { /* a name with an address */
	char *name; /* owned */
	uint32_t n, next;
};

struct pin { /* an address that a name was answered with */
	struct resolve_addr addr;
	uint32_t name, next; /* next: nr + 1 with the same slot */
};
enum { PINS_MAX = 65536 };

struct seen { /* a refusal of late */
	uint64_t at_ms, suppressed, hash;
	bool waits; /* suppressed is of some that found no room: it is told without waiting for the window's end */
	struct judge_record r; /* points into what follows */
	char rule[JUDGE_ID_MAX + 1], asked[256];
	struct judge_dest dest;
	struct judge_peer src;
};
enum { SEEN_MAX = 64, NAME_SLOTS = 1024 };

struct judge {
	struct rule *rules;
	uint32_t rules_n, rules_cap;
	uint32_t generation;
	char sha256[65]; /* of what the rules were made from; "" = not told */
	char *resolvers;
	struct judge_proxy proxy;
	struct judge_limits limits;
	struct rule_use use; /* the sandbox's */

	uint32_t *by_name, *by_net, slots; /* the index; slots: a power of two */
	bool bits4[33], bits6[129];        /* prefix lengths there are */

	bool audit, single; /* everything is permitted and noted; some rule's name has one label */
	struct {
		uint32_t ttl_s, max_names, denied_qps;
		bool aaaa, pinned; /* pinned: names are answered with what they stand for */
		struct net_of pool4, pool6;
	} dns;
	struct mapped *names;
	uint32_t names_n, names_cap, *name_slot; /* NAME_SLOTS of nr + 1; NULL before the first */

	struct pin *pins;          /* of pinned: addresses that were answered */
	uint32_t pins_n, pins_cap, *pin_slot; /* likewise */

	uint32_t alert_after, dedupe_window_s;
	uint64_t denied, dns_parts, dns_at_ms;
	struct seen *seen; /* SEEN_MAX, or NULL before the first */
	uint32_t seen_n;
};

/* Text to its one form: lower case, one trailing dot dropped, LDH and '_' labels, at least `least`, the last not
 * a number. Length, or -EINVAL. */
int must_check name_canon(const char *s, size_t n, uint32_t least, char out[JUDGE_NAME_MAX + 1]);
/* HOST:PORTS[/PROTO][@NETS] into *ret, which is overwritten. labels: the least a name may have. */
int must_check rule_parse(const char *word, size_t n, uint32_t labels, struct rule *ret, struct err *e);
void rule_done(struct rule *r);
/* One line that continues a rule: KEY VALUE. */
int must_check rule_option(struct rule *r, const char *s, size_t n, struct err *e);
/* KEY VALUE of the proxy's. */
bool proxy_line(struct judge_proxy *p, const char *s, size_t n);
void proxy_done(struct judge_proxy *p);
/* limit KEY NUMBER, with the prefix already gone. */
int must_check limit_parse(struct judge_limits *l, const char *s, size_t n, struct err *e);
/* A decimal number up to max. */
bool num_parse(const char *s, size_t n, uint64_t max, uint64_t *ret);
/* The whole text into an empty judge. When refused, *line is the line's number, 0 when it is no single one. */
int must_check judge_read(struct judge *j, const char *text, size_t n, uint32_t *line, struct err *e);

/* One of a rate: rate parts come each ms, room at most, one costs cost. *at_ms: 0 = never filled. */
bool take_token(uint64_t *parts, uint64_t *at_ms, uint64_t now_ms, uint64_t rate, uint64_t room, uint64_t cost);

bool rule_has_port(const struct rule *r, uint16_t port);
bool rule_better(const struct rule *a, const struct rule *b); /* more specific */
int must_check index_make(struct judge *j); /* -ENOMEM */
typedef void (*rule_fn)(void *arg, struct rule *r);
/* Each rule that a name, an address matches, those of one name in the order given. */
void index_each_name(const struct judge *j, const char *name, size_t n, rule_fn fn, void *arg);
void index_each_net(const struct judge *j, const struct resolve_addr *a, rule_fn fn, void *arg);

/* The rule by which a name may be asked for at all: some port of it is open. NULL with *reason, and the deny rule's id. */
struct rule *names_permit(const struct judge *j, const char *name, size_t n, const char **reason, const char **rule);
/* Its number, or -1. */
int names_find(const struct judge *j, const char *name, size_t n);
/* Give it a number. -EPERM with *reason, -ENOMEM. */
int must_check names_add(struct judge *j, struct rule *r, const char *name, size_t n, const char **reason);
/* Addresses of a number: 4 and 16 bytes. */
void names_addr4(const struct judge *j, uint32_t nr, uint8_t ret[4]);
void names_addr6(const struct judge *j, uint32_t nr, uint8_t ret[16]);
/* This name was answered with this address. False: there is no room for more. */
bool must_check pins_add(struct judge *j, const struct resolve_addr *a, uint32_t name);
/* The names an address was answered for, the oldest last; at most max of them. Their number, more than max when there are more. */
uint32_t pins_of(const struct judge *j, const struct resolve_addr *a, uint32_t *names, uint32_t max);
uint64_t hash_bytes(uint64_t h, const void *p, size_t n);
enum { HASH_START = 0x1505 };
