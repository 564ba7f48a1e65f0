#include "gate/judge_priv.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * The rules as brig hands them over: lines, in the order of the caller's file, then those of the command line.
 *
 *   policy SHA256                what they were made from
 *   default deny|audit
 *   resolver IP[:PORT],...
 *   dns KEY VALUE                ttl_s max_names denied_qps aaaa pinned pool4 pool6
 *   proxy KEY VALUE              address (IP:PORT; forgets the other two), names gate|proxy, credentials REFERENCE
 *   limit KEY NUMBER
 *   on_deny KEY NUMBER           alert_after dedupe_window_s
 *   allow HOST:PORTS...          a name, see judge_rule.c
 *   single HOST:PORTS...         a name that may have one label only
 *   range NET:PORTS...           addresses
 *   local ADDR:PORT@REAL         one address that stands for another, which may be below the floor: brig's own tools
 *                                reach a registry of this machine by it; no caller can write it (spawn/runner.c)
 *   deny HOST-OR-NET:PORTS...
 *   +KEY VALUE                   of the rule before, see judge_option.c
 */

static int bad(const char *s, size_t n, const char *why, struct err *e)
{
	return err_set(e, ERR_INVALID, EINVAL, "%.*s: %s", (int)MIN(n, (size_t)80), s, why);
}

/* What follows "WORD ", or NULL. */
static const char *after(const char *s, size_t n, const char *word, size_t *rest)
{
	size_t k = strlen(word);

	if (n <= k + 1 || memcmp(s, word, k) != 0 || s[k] != ' ')
		return NULL;
	*rest = n - k - 1;
	return s + k + 1;
}

static bool take_number(const char *s, size_t n, const char *key, uint64_t min, uint64_t max, uint32_t *ret)
{
	size_t k;
	const char *p = after(s, n, key, &k);
	uint64_t v;

	if (p == NULL || !num_parse(p, k, max, &v) || v < min)
		return false;
	*ret = (uint32_t)v;
	return true;
}

/* Made-up addresses: not so few that they run out, and nothing that anybody else could mean. */
static bool take_pool(const char *s, size_t n, const char *key, bool v6, struct net_of *ret)
{
	size_t k;
	const char *p = after(s, n, key, &k);
	struct net_of net;

	if (p == NULL || net_parse(p, k, &net) < 0 || net.net.v6 != v6)
		return false;
	if (v6 ? net.bits < 16 || net.bits > 96 || (net.net.a[0] & 0xfe) != 0xfc
	       : net.bits < 8 || net.bits > 20 || floor_of(&net.net) == FLOOR_OPEN)
		return false;
	if (!v6 && floor_of(&net.net) == FLOOR_NEVER && (net.net.a[0] != 198 || (net.net.a[1] & 0xfe) != 18 || net.bits < 15))
		return false;
	*ret = net;
	return true;
}

static int take_dns(struct judge *j, const char *s, size_t n, struct err *e)
{
	uint32_t on;

	if (take_number(s, n, "ttl_s", 0, 86400, &j->dns.ttl_s) ||
	    take_number(s, n, "max_names", 1, NAMES_MAX, &j->dns.max_names) ||
	    take_number(s, n, "denied_qps", 1, 100000, &j->dns.denied_qps))
		return 0;
	if (take_number(s, n, "aaaa", 0, 1, &on)) {
		j->dns.aaaa = on == 1;
		return 0;
	}
	if (take_number(s, n, "pinned", 0, 1, &on)) {
		j->dns.pinned = on == 1;
		return 0;
	}
	if (take_pool(s, n, "pool4", false, &j->dns.pool4) || take_pool(s, n, "pool6", true, &j->dns.pool6))
		return 0;
	return bad(s, n, "not a setting of dns", e);
}

static int grow(struct judge *j, struct err *e)
{
	uint32_t cap = MAX(j->rules_cap * 2, 1u); /* few have many, and each has 1 KiB */
	struct rule *grown;

	if (j->rules_n >= RULES_MAX)
		return err_set(e, ERR_LIMITED, E2BIG, "more than %d rules", RULES_MAX);
	if (j->rules_n < j->rules_cap)
		return 0;
	grown = realloc(j->rules, cap * sizeof(*grown));
	if (grown == NULL)
		return err_no_memory(e);
	j->rules = grown;
	j->rules_cap = cap;
	return 0;
}

static bool whole(const struct net_of *n) { return n->bits == (n->net.v6 ? 128u : 32u); }

static int take_local(struct judge *j, const char *s, size_t n, struct err *e)
{
	const char *at = memchr(s, '@', n);
	struct net_of to = {.bits = 0};
	struct rule *rule;
	int r = grow(j, e);

	if (r < 0)
		return r;
	rule = &j->rules[j->rules_n];
	r = rule_parse(s, at != NULL ? (size_t)(at - s) : n, 2, rule, e);
	if (r < 0)
		return r;
	if (at == NULL || net_parse(at + 1, (size_t)(s + n - at - 1), &to) < 0 || !whole(&to) || rule->kind != RULE_CIDR ||
	    !whole(&rule->nets[0]) || rule->ports_n != 1 || rule->first[0] != rule->last[0])
		return bad(s, n, "one ADDRESS:PORT@ADDRESS is needed", e);
	rule->local = true;
	rule->local_to = to.net;
	(void)snprintf(rule->id, sizeof(rule->id), "%u", ++j->rules_n);
	return 0;
}

static int take_rule(struct judge *j, const char *verb, const char *s, size_t n, struct err *e)
{
	bool single = strcmp(verb, "single") == 0, deny = strcmp(verb, "deny") == 0, range = strcmp(verb, "range") == 0;
	struct rule *rule;
	int r = grow(j, e);

	if (r < 0)
		return r;
	rule = &j->rules[j->rules_n];
	r = rule_parse(s, n, single || deny ? 1 : 2, rule, e);
	if (r < 0)
		return r;
	/* an address must be meant: a name that looks like one, or a typing mistake, is none */
	if (!deny && range != (rule->kind == RULE_CIDR))
		return bad(s, n, range ? "an address range is needed" : "an address range is permitted by a range rule (--allow-cidr)", e);
	rule->deny = deny;
	j->single |= single;
	(void)snprintf(rule->id, sizeof(rule->id), "%u", ++j->rules_n);
	return 0;
}

static int take_line(struct judge *j, const char *s, size_t n, struct err *e)
{
	static const char *const verbs[] = {"allow", "single", "range", "deny"};
	const char *p;
	size_t k;

	if (n == 0 || *s == '#')
		return 0;
	for (size_t i = 0; i < ARRAY_LEN(verbs); i++)
		if ((p = after(s, n, verbs[i], &k)) != NULL)
			return take_rule(j, verbs[i], p, k, e);
	if ((p = after(s, n, "local", &k)) != NULL)
		return take_local(j, p, k, e);
	if (*s == '+')
		return j->rules_n > 0 ? rule_option(&j->rules[j->rules_n - 1], s + 1, n - 1, e)
				      : bad(s, n, "continues no rule", e);
	if ((p = after(s, n, "limit", &k)) != NULL)
		return limit_parse(&j->limits, p, k, e);
	if ((p = after(s, n, "dns", &k)) != NULL)
		return take_dns(j, p, k, e);
	if ((p = after(s, n, "proxy", &k)) != NULL)
		return proxy_line(&j->proxy, p, k) ? 0 : bad(s, n, "not a setting of proxy, or no proxy's address before it", e);
	if ((p = after(s, n, "on_deny", &k)) != NULL)
		return take_number(p, k, "alert_after", 0, UINT32_MAX, &j->alert_after) ||
			       take_number(p, k, "dedupe_window_s", 0, 86400, &j->dedupe_window_s)
			   ? 0
			   : bad(s, n, "not a setting of on_deny", e);
	if ((p = after(s, n, "resolver", &k)) != NULL) {
		free(j->resolvers);
		j->resolvers = strndup(p, k);
		return j->resolvers == NULL ? err_no_memory(e) : 0;
	}
	if ((p = after(s, n, "policy", &k)) != NULL && k == sizeof(j->sha256) - 1) {
		memcpy(j->sha256, p, k);
		return 0;
	}
	if ((p = after(s, n, "default", &k)) != NULL && (k == 4 || k == 5) &&
	    (memcmp(p, "deny", k) == 0 || memcmp(p, "audit", k) == 0)) {
		j->audit = k == 5;
		return 0;
	}
	return bad(s, n, "not a rule: it begins with allow, range, deny, limit, resolver", e);
}

/* Learning what a program needs: all is permitted that no rule decides, down to the floor. */
static int add_audit(struct judge *j, struct err *e)
{
	static const struct {
		enum rule_kind kind;
		bool v6;
	} all[] = {{RULE_MANY, false}, {RULE_CIDR, false}, {RULE_CIDR, true}};

	for (uint32_t i = 0; i < j->rules_n; i++)
		if (j->rules[i].http != NULL && j->rules[i].http->inject_n > 0)
			return err_set(e, ERR_INVALID, EINVAL, "default audit and inject exclude each other");
	for (size_t i = 0; i < ARRAY_LEN(all); i++) {
		int r = grow(j, e);

		if (r < 0)
			return r;
		j->rules[j->rules_n++] = (struct rule){.audit = true,
						       .kind = all[i].kind,
						       .names_max = NAMES_MAX,
						       .label_max = 63,
						       .ports_n = 1,
						       .first = {1},
						       .last = {65535},
						       .nets_n = all[i].kind == RULE_CIDR ? 1 : 0,
						       .nets = {{.net = {.v6 = all[i].v6}}}};
	}
	return 0;
}

/* What a line alone cannot show. */
static int check_rules(const struct judge *j, struct err *e)
{
	struct net_range pool = {.v6 = false}, last = {.v6 = false};

	if (j->proxy.names && j->dns.pinned)
		return err_set(e, ERR_INVALID, EINVAL, "proxy: names: proxy leaves nothing to answer with (dns: mode: pinned)");
	memcpy(pool.first, j->dns.pool4.net.a, 4);
	net_last(&j->dns.pool4, pool.last);
	for (uint32_t i = 0; i < j->rules_n; i++) {
		const struct rule *r = &j->rules[i];
		const struct judge_http *h = r->http;

		net_last(&r->nets[0], last.last);
		if (r->kind == RULE_CIDR && !r->deny && !r->audit && !r->nets[0].net.v6 && r->nets[0].bits >= 8 &&
		    memcmp(r->nets[0].net.a, pool.last, 4) <= 0 && memcmp(last.last, pool.first, 4) >= 0)
			return err_set(e, ERR_INVALID, EINVAL, "rule %s: the range holds made-up addresses (dns pool4)", r->id);
		if (h == NULL)
			continue;
		if (!r->inspect && r->check != CHECK_HTTP)
			return err_set(e, ERR_INVALID, EINVAL, "rule %s: http needs protocol http, or tls with tls: inspect", r->id);
		for (uint32_t k = 0; k < h->inject_n; k++)
			if (h->inject[k].format == NULL || h->inject[k].secret == NULL ||
			    (!r->inspect && !h->plaintext_inject))
				return err_set(e, ERR_INVALID, EINVAL, "rule %s: inject needs format, secret and tls: inspect", r->id);
	}
	return 0;
}

int judge_read(struct judge *j, const char *text, size_t n, uint32_t *line, struct err *e)
{
	int r = 0;

	*line = 0;
	for (size_t at = 0; r == 0 && at < n;) {
		const char *nl = memchr(text + at, '\n', n - at);
		size_t len = nl != NULL ? (size_t)(nl - text) - at : n - at;

		++*line;
		r = memchr(text + at, 0, len) != NULL ? bad("", 0, "a zero byte", e) : take_line(j, text + at, len, e);
		at += len + 1;
	}
	if (r < 0)
		return r;
	*line = 0;
	r = check_rules(j, e);
	return r == 0 && j->audit ? add_audit(j, e) : r;
}
