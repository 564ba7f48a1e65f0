#pragma once
/* What this host and this caller have of cgroups, for `brig check`: the same for every tier. */
#include "tier/tier.h"

void host_report_limits(struct tier_report *r);
