#include "gate/judge_priv.h"

#include "base/cleanup.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/*
 * The decision: one destination, one pure function, for every way in. Rules that refuse are looked at first; of those
 * that permit, the most specific counts alone (an exact name before *. before **. before a range, longer before
 * shorter, then the order given). Nothing given means nothing permitted.
 */

static int make(const char *text, size_t n, struct judge **ret, uint32_t *line, struct err *e)
{
	struct judge *j = calloc(1, sizeof(*j));
	int r;

	*line = 0;
	if (j == NULL)
		return err_no_memory(e);
	j->generation = 1;
	j->limits = (struct judge_limits){.max_conns = 256,
					  .conn_rate_per_s = 50,
					  .burst = 100,
					  .bytes_up = UINT64_C(1) << 30,
					  .bytes_down = UINT64_C(10) << 30,
					  .idle_s = 300,
					  .max_conn_s = 86400,
					  .connect_timeout_ms = 10000};
	j->dns.ttl_s = 30;
	j->dns.max_names = NAMES_DEFAULT;
	j->dns.denied_qps = 20;
	j->dns.pool4 = (struct net_of){.net = {.a = {198, 18}}, .bits = 15};
	j->dns.pool6 = (struct net_of){.net = {.v6 = true, .a = {0xfd, 0, 0, 0x5b}}, .bits = 64};
	j->dedupe_window_s = 60;
	r = judge_read(j, text, n, line, e);
	if (r == 0 && index_make(j) < 0)
		r = err_no_memory(e);
	if (r < 0) {
		judge_free(j);
		return r;
	}
	*ret = j;
	return 0;
}

int judge_new(const char *text, size_t n, struct judge **ret, struct err *e)
{
	uint32_t line;
	int r = make(text, n, ret, &line, e);

	return r < 0 && line > 0 ? err_wrap(e, r, "egress rule %u", line) : r;
}

int judge_check(const char *text, size_t n, uint32_t *line, struct err *e)
{
	static struct net_range ranges[NET_RANGES_MAX];
	struct judge *j = NULL;
	int r = make(text, n, &j, line, e);

	if (r == 0 && judge_ranges(j, ranges, NET_RANGES_MAX) == UINT32_MAX)
		r = err_set(e, ERR_LIMITED, E2BIG, "egress: more than %d address ranges", NET_RANGES_MAX - 2);
	judge_free(j);
	return r;
}

void judge_free(struct judge *j)
{
	if (j == NULL)
		return;
	for (uint32_t i = 0; i < j->rules_n; i++)
		rule_done(&j->rules[i]);
	for (uint32_t i = 0; i < j->names_n; i++)
		free(j->names[i].name);
	free(j->rules);
	free(j->names);
	free(j->name_slot);
	free(j->pins);
	free(j->pin_slot);
	free(j->by_name);
	free(j->by_net);
	free(j->resolvers);
	proxy_done(&j->proxy);
	free(j->seen);
	free(j);
}

uint32_t judge_generation(const struct judge *j) { return j->generation; }
const struct judge_limits *judge_limits(const struct judge *j) { return &j->limits; }
const char *judge_resolvers(const struct judge *j) { return j->resolvers; }

static struct net_range range_of(const struct net_of *n)
{
	struct net_range r = {.v6 = n->net.v6};

	memcpy(r.first, n->net.a, sizeof(r.first));
	net_last(n, r.last);
	return r;
}

uint32_t judge_ranges(const struct judge *j, struct net_range *out, uint32_t max)
{
	static const struct net_of all4 = {.bits = 0}, all6 = {.net = {.v6 = true}};
	uint32_t n = 0;

	if (max < 2)
		return UINT32_MAX;
	/* what real names stand for is known when they are asked for: everything comes here, and is refused here */
	out[n++] = range_of(j->dns.pinned ? &all4 : &j->dns.pool4);
	if (j->dns.aaaa)
		out[n++] = range_of(j->dns.pinned ? &all6 : &j->dns.pool6);
	for (uint32_t i = 0; i < j->rules_n; i++) {
		const struct rule *r = &j->rules[i];

		if (r->kind != RULE_CIDR || r->deny)
			continue;
		if (n == max)
			return UINT32_MAX;
		out[n++] = range_of(&r->nets[0]);
	}
	return n;
}

/* ---- decide ---- */

struct choice {
	uint16_t port;
	const struct rule *best, *denied;
	bool other_port;
};

static void choose(void *arg, struct rule *r)
{
	struct choice *c = (struct choice *)arg;

	if (!rule_has_port(r, c->port)) {
		c->other_port |= !r->deny;
	} else if (r->deny) {
		c->denied = c->denied != NULL ? c->denied : r;
	} else if (c->best == NULL || rule_better(r, c->best)) {
		c->best = r;
	}
}

static uint32_t own32(uint32_t rule, uint32_t all) { return rule != 0 ? rule : all; }

static void permit(const struct judge *j, const struct rule *r, struct judge_verdict *ret)
{
	*ret = (struct judge_verdict){.allow = true,
				      .would_deny = r->audit,
				      .inspect = r->inspect,
				      .ech_allow = r->ech_allow,
				      .reason = "allowed",
				      .rule_nr = (uint32_t)(r - j->rules),
				      .check = r->check,
				      .limits = r->limits};
	memcpy(ret->rule, r->id, sizeof(ret->rule));
	ret->limits.idle_s = own32(r->limits.idle_s, j->limits.idle_s);
	ret->limits.max_conn_s = own32(r->limits.max_conn_s, j->limits.max_conn_s);
	ret->limits.connect_timeout_ms = own32(r->limits.connect_timeout_ms, j->limits.connect_timeout_ms);
}

void judge_decide(const struct judge *j, const struct judge_dest *d, struct judge_verdict *ret)
{
	struct choice c = {.port = d->port};
	const char *why;

	*ret = (struct judge_verdict){.reason = "deny_rule"};
	if (d->named)
		index_each_name(j, d->name, strlen(d->name), choose, &c);
	else
		index_each_net(j, &d->orig, choose, &c);
	if (c.denied != NULL) {
		memcpy(ret->rule, c.denied->id, sizeof(ret->rule));
		return;
	}
	why = c.other_port ? "port" : d->named ? "no_rule" : "raw_ip";
	if (c.best != NULL)
		permit(j, c.best, ret);
	if (c.best == NULL || c.best->audit)
		ret->reason = why;
}

/* ---- addresses ---- */

/* A range opens closed addresses only when it is about them: 0.0.0.0/0 means the Internet, not the networks at home. */
static bool names_closed(const struct net_of *n)
{
	struct resolve_addr last = {.v6 = n->net.v6};

	net_last(n, last.a);
	return n->bits >= (n->net.v6 ? 7u : 4u) && floor_of(&n->net) != FLOOR_OPEN && floor_of(&last) != FLOOR_OPEN;
}

bool judge_addr(const struct judge *j, const struct judge_dest *d, const struct judge_verdict *v,
		const struct resolve_addr *a, bool ours, const char **reason)
{
	const struct rule *r = &j->rules[v->rule_nr];
	enum floor_class c = floor_of(a);
	struct choice deny = {.port = d->port};

	index_each_net(j, a, choose, &deny);
	*reason = ours && c != FLOOR_NEVER ? "addr_host" : "addr_floor";
	if (r->local)
		return deny.denied == NULL && r->local_to.v6 == a->v6 && memcmp(r->local_to.a, a->a, a->v6 ? 16 : 4) == 0;
	if (ours || deny.denied != NULL || net_has(&j->dns.pool4, a) || net_has(&j->dns.pool6, a))
		return false;
	for (uint32_t i = 0; c == FLOOR_NAMED && i < r->nets_n; i++)
		if (net_has(&r->nets[i], a) && names_closed(&r->nets[i]))
			return true;
	return c == FLOOR_OPEN;
}

void judge_local(const struct judge *j, const struct judge_verdict *v, struct resolve_addr *a)
{
	if (j->rules[v->rule_nr].local)
		*a = j->rules[v->rule_nr].local_to;
}

bool judge_has_local(const struct judge *j)
{
	for (uint32_t i = 0; i < j->rules_n; i++)
		if (j->rules[i].local)
			return true;
	return false;
}

/* ---- taking over ---- */

static const struct rule *same_id(const struct judge *j, const char *id)
{
	for (uint32_t i = 0; i < j->rules_n; i++)
		if (!j->rules[i].deny && strcmp(j->rules[i].id, id) == 0)
			return &j->rules[i];
	return NULL;
}

static bool same_net(const struct net_of *a, const struct net_of *b)
{
	return a->bits == b->bits && memcmp(a->net.a, b->net.a, sizeof(a->net.a)) == 0;
}

int judge_adopt(struct judge *j, struct judge *old)
{
	if (!same_net(&j->dns.pool4, &old->dns.pool4) || !same_net(&j->dns.pool6, &old->dns.pool6) ||
	    j->dns.pinned != old->dns.pinned || j->names_n != 0)
		return -EINVAL;
	j->generation = old->generation + 1;
	j->names = steal_ptr(&old->names);
	j->names_n = old->names_n;
	j->names_cap = old->names_cap;
	old->names_n = 0;
	j->name_slot = steal_ptr(&old->name_slot);
	j->pins = steal_ptr(&old->pins);
	j->pins_n = old->pins_n;
	j->pins_cap = old->pins_cap;
	j->pin_slot = steal_ptr(&old->pin_slot);
	j->seen = steal_ptr(&old->seen);
	j->seen_n = old->seen_n;
	j->denied = old->denied;
	j->dns_parts = old->dns_parts;
	j->dns_at_ms = old->dns_at_ms;
	j->use = old->use;
	for (uint32_t i = 0; i < j->rules_n; i++) {
		const struct rule *was = same_id(old, j->rules[i].id);

		if (was != NULL)
			j->rules[i].use = was->use;
	}
	for (uint32_t i = 0; i < j->names_n; i++) {
		const char *reason, *rule = NULL;
		struct rule *r = names_permit(j, j->names[i].name, j->names[i].n, &reason, &rule);

		if (r != NULL)
			r->names++;
	}
	return 0;
}
