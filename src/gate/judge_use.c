#include "gate/judge_priv.h"

/*
 * What is used up, of a rule and of the sandbox: open connections, new ones per second, bytes, requests. A rate is a
 * bucket that fills with time: with `rate` parts a millisecond, and one of what is counted costs `cost` of them.
 */

bool take_token(uint64_t *parts, uint64_t *at_ms, uint64_t now_ms, uint64_t rate, uint64_t room, uint64_t cost)
{
	uint64_t gained = *at_ms == 0 ? room : (now_ms + 1 - *at_ms) * rate;

	*parts = MIN(*parts + gained, room);
	*at_ms = now_ms + 1; /* 0 = never filled */
	if (*parts < cost)
		return false;
	*parts -= cost;
	return true;
}

static bool begin(struct rule_use *u, const struct judge_limits *l, uint64_t now_ms, const char **reason)
{
	uint64_t burst = MAX(l->burst != 0 ? l->burst : l->conn_rate_per_s, 1u);

	*reason = "max_conns";
	if (l->max_conns != 0 && u->conns >= l->max_conns)
		return false;
	*reason = "conn_rate";
	if (l->conn_rate_per_s != 0 &&
	    !take_token(&u->conn_parts, &u->conn_at_ms, now_ms, l->conn_rate_per_s, burst * 1000, 1000))
		return false;
	u->conns++;
	return true;
}

bool judge_open(struct judge *j, const struct judge_verdict *v, uint64_t now_ms, const char **reason)
{
	if (v == NULL)
		return begin(&j->use, &j->limits, now_ms, reason);
	return begin(&j->rules[v->rule_nr].use, &v->limits, now_ms, reason);
}

void judge_close(struct judge *j, const struct judge_verdict *v)
{
	struct rule_use *u = v == NULL ? &j->use : &j->rules[v->rule_nr].use;

	u->conns -= u->conns > 0 ? 1 : 0;
}

void judge_recount(struct judge *j)
{
	for (uint32_t i = 0; i < j->rules_n; i++)
		j->rules[i].use.conns = 0;
}

void judge_count(struct judge *j, const struct judge_verdict *v) { j->rules[v->rule_nr].use.conns++; }

static uint64_t left_of(uint64_t limit, uint64_t used)
{
	return limit == 0 ? UINT64_MAX : limit - MIN(limit, used);
}

uint64_t judge_room(const struct judge *j, const struct judge_verdict *v, bool up)
{
	const struct rule_use *u = &j->rules[v->rule_nr].use;
	uint64_t all = up ? left_of(j->limits.bytes_up, j->use.up) : left_of(j->limits.bytes_down, j->use.down);
	uint64_t own = up ? left_of(v->limits.bytes_up, u->up) : left_of(v->limits.bytes_down, u->down);

	return MIN(all, own);
}

static bool within(const struct rule_use *u, const struct judge_limits *l, const char **reason)
{
	if (l->bytes_up != 0 && u->up >= l->bytes_up) {
		*reason = "bytes_up";
		return false;
	}
	*reason = "bytes_down";
	return l->bytes_down == 0 || u->down < l->bytes_down;
}

bool judge_moved(struct judge *j, const struct judge_verdict *v, uint64_t up, uint64_t down, const char **reason)
{
	struct rule_use *u = &j->rules[v->rule_nr].use;

	j->use.up += up;
	j->use.down += down;
	u->up += up;
	u->down += down;
	return within(&j->use, &j->limits, reason) && within(u, &v->limits, reason);
}

bool judge_request_rate(struct judge *j, const struct judge_verdict *v, uint64_t now_ms, const char **reason)
{
	struct rule_use *u = &j->rules[v->rule_nr].use;
	uint64_t per_min = v->limits.requests_per_min;

	*reason = "request_rate";
	return per_min == 0 ||
	       take_token(&u->req_parts, &u->req_at_ms, now_ms, per_min, per_min * 60000, 60000);
}
