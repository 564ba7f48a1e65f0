#pragma once
#include "tier/tier.h"

/* The tier's start, confirm and probe, as tier.h describes them. */
int container_start(const struct spec *spec, const struct tier_res *res, struct tier_box *ret, struct err *e);
int container_confirm(const struct tier_box *box, struct err *e);
void container_probe(struct tier_report *r);
