#pragma once
#include "base/err.h"
#include "net/net.h"

#include <stddef.h>

struct judge;

/* What some sandboxes' rules may hold and others' not. */
enum plan_may {
	PLAN_HTTP = 1,  /* rules about HTTP: somebody is there who reads it */
	PLAN_LOCAL = 2, /* local rules, which are for brig's own tools (spec.egress_local) */
};
/* What the kernel must lead to the gate by these rules (gate/judge.h): *ret is the caller's to free. */
int must_check plan_judged(const struct judge *j, unsigned may, struct net_plan **ret, struct err *e);
int must_check plan_rules(const char *text, size_t n, unsigned may, struct net_plan **ret, struct err *e);
