#include "tier/tier.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define TIER(id, text) extern const struct tier_ops tier_ops_##id;
#include "tier/tiers.def"
#undef TIER

static const struct tier_ops *const tiers[] = {
#define TIER(id, text) [TIER_##id] = &tier_ops_##id,
#include "tier/tiers.def"
#undef TIER
};
_Static_assert(sizeof(tiers) / sizeof(tiers[0]) == TIER_COUNT, "tiers.def");

const struct tier_ops *tier_by_id(enum tier_id id) { return id < TIER_COUNT ? tiers[id] : NULL; }

const struct tier_ops *tier_by_name(const char *name)
{
	for (size_t i = 0; i < TIER_COUNT; i++)
		if (strcmp(tiers[i]->name, name) == 0)
			return tiers[i];
	return NULL;
}

void tier_report_add(struct tier_report *r, enum finding_level level, const char *what,
		     const char *fix, const char *state_fmt, ...)
{
	struct finding *f;
	va_list ap;

	if (r->n >= TIER_FINDINGS_MAX)
		return;
	f = &r->f[r->n++];
	f->level = level;
	(void)snprintf(f->what, sizeof(f->what), "%s", what);
	(void)snprintf(f->fix, sizeof(f->fix), "%s", fix != NULL ? fix : "");
	va_start(ap, state_fmt);
	(void)vsnprintf(f->state, sizeof(f->state), state_fmt, ap);
	va_end(ap);
}
