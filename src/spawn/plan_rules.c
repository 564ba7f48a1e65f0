#include "spawn/plan_rules.h"

#include "base/cleanup.h"
#include "gate/judge.h"

#include <errno.h>

int plan_judged(const struct judge *j, unsigned may, struct net_plan **ret, struct err *e)
{
	static struct net_range ranges[NET_RANGES_MAX]; /* not the heap: giving pages back takes its time */
	_cleanup_free_ struct net_plan *p = malloc(sizeof(*p));
	uint32_t n;

	if (p == NULL)
		return err_no_memory(e);
	if (judge_reads(j) != 0 && (may & PLAN_HTTP) == 0)
		return err_set(e, ERR_UNSUPPORTED, ENOTSUP, "rules about HTTP, for a sandbox that was started without any");
	if (judge_has_local(j) && (may & PLAN_LOCAL) == 0)
		return err_set(e, ERR_INVALID, EPERM, "egress: not a rule: local");
	n = judge_ranges(j, ranges, NET_RANGES_MAX);
	if (n > NET_RANGES_MAX || net_plan_gate(p, ranges, n, NULL) < 0)
		return err_set(e, ERR_LIMITED, E2BIG, "egress: more than %d address ranges", NET_RANGES_MAX - 1);
	*ret = steal_ptr(&p);
	return 0;
}

int plan_rules(const char *text, size_t n, unsigned may, struct net_plan **ret, struct err *e)
{
	struct judge *j = NULL;
	int r = judge_new(text, n, &j, e);

	if (r == 0)
		r = plan_judged(j, may, ret, e);
	judge_free(j);
	return r;
}
