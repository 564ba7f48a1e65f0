#include "gate/judge_priv.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * The decision: one destination, one pure function, for every way in. Rules that refuse are looked at first; of those
 * that permit, the most specific counts alone (an exact name before *. before **. before a range, longer before
 * shorter, then the order given). Nothing given means nothing permitted.
 *
 * Made-up addresses: each allowed name that was asked for gets the next one of 198.18.1.0 and on, never to be used for
 * another. An address only names: what it stands for is decided again at each connection.
 */

enum { FIRST_NAME = 256 }; /* offset into 198.18.0.0/15 */

struct judge {
	struct rule *rules;
	uint32_t rules_n;
	struct judge_limits limits;
	char *resolvers;
	uint32_t names_n;
	struct {
		uint16_t n;
		char name[JUDGE_NAME_MAX + 1];
	} *names; /* NAMES_MAX */
};

/* ---- rules ---- */

static int set_limit(struct judge *j, const char *s, size_t n, struct err *e)
{
	const struct {
		const char *name;
		uint32_t *at;
	} keys[] = {{"limit max_conns ", &j->limits.max_conns},
		    {"limit conn_rate_per_s ", &j->limits.conn_rate_per_s},
		    {"limit burst ", &j->limits.burst},
		    {"limit idle_s ", &j->limits.idle_s},
		    {"limit connect_timeout_ms ", &j->limits.connect_timeout_ms},
		    {"limit kill_after ", &j->limits.kill_after}};

	for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
		size_t k = strlen(keys[i].name);
		uint64_t v = 0;

		if (n <= k || memcmp(s, keys[i].name, k) != 0)
			continue;
		for (size_t p = k; p < n; p++) {
			if (s[p] < '0' || s[p] > '9' || v > UINT32_MAX / 10)
				return err_set(e, ERR_INVALID, EINVAL, "%.*s: a number is needed", (int)n, s);
			v = v * 10 + (uint64_t)(s[p] - '0');
		}
		*keys[i].at = (uint32_t)v;
		return 0;
	}
	return err_set(e, ERR_INVALID, EINVAL, "%.*s: no such limit", (int)MIN(n, (size_t)80), s);
}

static int take_line(struct judge *j, const char *s, size_t n, struct err *e)
{
	struct rule *grown;
	bool range, named;
	int r;

	while (n > 0 && (s[n - 1] == ' ' || s[n - 1] == '\t' || s[n - 1] == '\r'))
		n--;
	while (n > 0 && (*s == ' ' || *s == '\t'))
		s++, n--;
	if (n == 0 || *s == '#')
		return 0;
	if (n > 6 && memcmp(s, "limit ", 6) == 0)
		return set_limit(j, s, n, e);
	if (n > 9 && memcmp(s, "resolver ", 9) == 0) {
		free(j->resolvers);
		j->resolvers = strndup(s + 9, n - 9);
		return j->resolvers == NULL ? err_set(e, ERR_INTERNAL, ENOMEM, "out of memory") : 0;
	}
	range = n > 6 && memcmp(s, "range ", 6) == 0;
	named = n > 6 && memcmp(s, "allow ", 6) == 0;
	if (range || named)
		s += 6, n -= 6;
	if (j->rules_n == RULES_MAX)
		return err_set(e, ERR_LIMITED, E2BIG, "more than %d rules", RULES_MAX);
	grown = realloc(j->rules, (j->rules_n + 1) * sizeof(*grown));
	if (grown == NULL)
		return err_set(e, ERR_INTERNAL, ENOMEM, "out of memory");
	j->rules = grown;
	r = rule_parse(s, n, &grown[j->rules_n], e);
	if (r < 0)
		return r;
	/* an address must be meant: a name that looks like one, or a typing mistake, is none */
	if ((named && grown[j->rules_n].kind == RULE_CIDR) || (range && grown[j->rules_n].kind != RULE_CIDR))
		return err_set(e, ERR_INVALID, EINVAL, "%.*s: %s", (int)MIN(n, (size_t)80), s,
			       named ? "an address range is permitted by a range rule (--allow-cidr)"
				     : "an address range is needed");
	(void)snprintf(grown[j->rules_n].id, sizeof(grown->id), "%u", j->rules_n + 1);
	j->rules_n++;
	return 0;
}

int judge_new(const char *text, size_t n, struct judge **ret, struct err *e)
{
	struct judge *j = calloc(1, sizeof(*j));
	int r = 0;

	if (j == NULL || (j->names = calloc(NAMES_MAX, sizeof(*j->names))) == NULL) {
		judge_free(j);
		return err_set(e, ERR_INTERNAL, ENOMEM, "out of memory");
	}
	j->limits = (struct judge_limits){.max_conns = 256,
					  .conn_rate_per_s = 50,
					  .burst = 100,
					  .bytes_up = UINT64_C(1) << 30,
					  .bytes_down = UINT64_C(10) << 30,
					  .idle_s = 300,
					  .max_conn_s = 86400,
					  .connect_timeout_ms = 10000};
	for (size_t at = 0, line = 1; r == 0 && at < n; line++) {
		const char *nl = memchr(text + at, '\n', n - at);
		size_t len = nl != NULL ? (size_t)(nl - text) - at : n - at;

		r = take_line(j, text + at, len, e);
		if (r < 0)
			(void)err_wrap(e, r, "egress rule %zu", line);
		at += len + 1;
	}
	if (r < 0) {
		judge_free(j);
		return r;
	}
	*ret = j;
	return 0;
}

void judge_free(struct judge *j)
{
	if (j == NULL)
		return;
	free(j->rules);
	free(j->names);
	free(j->resolvers);
	free(j);
}

const struct judge_limits *judge_limits(const struct judge *j) { return &j->limits; }
const char *judge_resolvers(const struct judge *j) { return j->resolvers; }

static void last_of(const struct net_of *n, uint8_t *out)
{
	memcpy(out, n->net.a, 16);
	for (uint32_t b = n->bits; b < (n->net.v6 ? 128u : 32u); b++)
		out[b / 8] |= (uint8_t)(0x80 >> b % 8);
}

uint32_t judge_ranges(const struct judge *j, struct net_range *out, uint32_t max)
{
	uint32_t n = 0;

	out[n++] = (struct net_range){.first = {198, 18, 0, 0}, .last = {198, 19, 255, 255}};
	for (uint32_t i = 0; i < j->rules_n; i++) {
		const struct rule *r = &j->rules[i];

		if (r->kind != RULE_CIDR || r->deny)
			continue;
		if (n == max)
			return UINT32_MAX;
		out[n] = (struct net_range){.v6 = r->nets[0].net.v6};
		memcpy(out[n].first, r->nets[0].net.a, 16);
		last_of(&r->nets[0], out[n].last);
		n++;
	}
	return n;
}

/* ---- names ---- */

static bool matches_name(const struct rule *r, const char *name, size_t n)
{
	size_t more;

	switch (r->kind) {
	case RULE_EXACT:
		return n == r->name_n && memcmp(name, r->name, n) == 0;
	case RULE_ONE:
	case RULE_MANY:
		if (n < r->name_n + 2)
			return false;
		more = n - r->name_n - 1; /* what stands for the stars */
		if (name[more] != '.' || memcmp(name + more + 1, r->name, r->name_n) != 0)
			return false;
		return r->kind == RULE_MANY || memchr(name, '.', more) == NULL;
	case RULE_CIDR:
		return false;
	}
	return false;
}

/* The better of two that match: kind, then length; the first given wins a draw. */
static bool better(const struct rule *a, const struct rule *b)
{
	uint32_t x = a->kind == RULE_CIDR ? a->nets[0].bits : (uint32_t)a->name_n;
	uint32_t y = b->kind == RULE_CIDR ? b->nets[0].bits : (uint32_t)b->name_n;

	return a->kind != b->kind ? a->kind < b->kind : x > y;
}

static bool has_port(const struct rule *r, uint16_t port)
{
	for (uint32_t i = 0; i < r->ports_n; i++)
		if (port >= r->first[i] && port <= r->last[i])
			return true;
	return false;
}

static bool in_net(const struct net_of *n, const struct resolve_addr *a)
{
	return n->net.v6 == a->v6 && addr_in(a->a, n->net.a, n->bits);
}

static bool matches(const struct rule *r, const struct judge_dest *d)
{
	if (d->named)
		return matches_name(r, d->name, strlen(d->name));
	return r->kind == RULE_CIDR && in_net(&r->nets[0], &d->orig);
}

void judge_decide(const struct judge *j, const struct judge_dest *d, struct judge_verdict *ret)
{
	const struct rule *best = NULL;
	bool other_port = false;

	*ret = (struct judge_verdict){.reason = "no_rule"};
	for (uint32_t i = 0; i < j->rules_n; i++) {
		const struct rule *r = &j->rules[i];

		if (!matches(r, d))
			continue;
		if (!has_port(r, d->port)) {
			other_port = true;
		} else if (r->deny) {
			*ret = (struct judge_verdict){.reason = "deny_rule", .rule = r->id};
			return;
		} else if (best == NULL || better(r, best)) {
			best = r;
		}
	}
	if (best == NULL) {
		ret->reason = other_port ? "port" : d->named ? "no_rule" : "raw_ip";
		return;
	}
	*ret = (struct judge_verdict){.allow = true,
				      .reason = "allowed",
				      .rule = best->id,
				      .rule_nr = (uint32_t)(best - j->rules),
				      .check = best->check};
}

/* A range opens closed addresses only when it is about them: 0.0.0.0/0 means the Internet, not the networks at home. */
static bool names_closed(const struct net_of *n)
{
	struct resolve_addr last = {.v6 = n->net.v6};

	last_of(n, last.a);
	return n->bits >= (n->net.v6 ? 7u : 4u) && floor_of(&n->net) != FLOOR_OPEN && floor_of(&last) != FLOOR_OPEN;
}

bool judge_addr(const struct judge *j, uint32_t rule_nr, const struct resolve_addr *a)
{
	const struct rule *r = &j->rules[rule_nr];
	enum floor_class c = floor_of(a);

	for (uint32_t i = 0; i < j->rules_n; i++)
		if (j->rules[i].deny && j->rules[i].kind == RULE_CIDR && in_net(&j->rules[i].nets[0], a))
			return false;
	for (uint32_t i = 0; c == FLOOR_NAMED && i < r->nets_n; i++)
		if (in_net(&r->nets[i], a) && names_closed(&r->nets[i]))
			return true;
	return c == FLOOR_OPEN;
}

/* A name may be asked for when some connection to it could be permitted. */
static struct rule *permits(struct judge *j, const char *name, size_t n, const char **reason, const char **rule)
{
	struct rule *best = NULL;

	*reason = "no_rule";
	for (uint32_t i = 0; i < j->rules_n; i++) {
		struct rule *r = &j->rules[i];

		if (!r->deny && matches_name(r, name, n) && (best == NULL || better(r, best)))
			best = r;
	}
	if (best != NULL)
		*rule = best->id;
	return best;
}

/* Names below a wildcard are the sandbox's choice, and each goes upstream once: bound what they can say. */
static bool within_budget(struct rule *r, const char *name, size_t n, const char **reason)
{
	size_t label = 0;

	if (r->kind == RULE_EXACT)
		return true;
	for (size_t i = 0; i < n - r->name_n; i++) {
		label = name[i] == '.' ? 0 : label + 1;
		if (label > WILD_LABEL_MAX) {
			*reason = "dns_label";
			return false;
		}
	}
	*reason = "dns_budget";
	return r->names < WILD_NAMES_MAX;
}

int judge_address(struct judge *j, const char *name, size_t n, uint8_t ret[4], const char **reason, const char **rule)
{
	struct rule *r = permits(j, name, n, reason, rule);
	uint32_t i, at;

	if (r == NULL)
		return -EPERM;
	for (i = 0; i < j->names_n; i++)
		if (j->names[i].n == n && memcmp(j->names[i].name, name, n) == 0)
			break;
	if (i == j->names_n) {
		if (!within_budget(r, name, n, reason))
			return -EPERM;
		*reason = "dns_budget";
		if (j->names_n == NAMES_MAX)
			return -ENOSPC;
		memcpy(j->names[i].name, name, n);
		j->names[i].n = (uint16_t)n;
		j->names_n++;
		r->names++;
	}
	at = FIRST_NAME + i;
	ret[0] = 198;
	ret[1] = (uint8_t)(18 + (at >> 16));
	ret[2] = (uint8_t)(at >> 8);
	ret[3] = (uint8_t)at;
	return 0;
}

bool judge_dest(const struct judge *j, const struct resolve_addr *orig, uint16_t port, struct judge_dest *ret)
{
	uint32_t at;

	*ret = (struct judge_dest){.port = port, .orig = *orig};
	if (orig->v6 || orig->a[0] != 198 || (orig->a[1] & 0xfe) != 18)
		return true;
	at = (uint32_t)(orig->a[1] & 1) << 16 | (uint32_t)orig->a[2] << 8 | orig->a[3];
	if (at < FIRST_NAME || at - FIRST_NAME >= j->names_n)
		return false;
	ret->named = true;
	memcpy(ret->name, j->names[at - FIRST_NAME].name, sizeof(ret->name));
	return true;
}
