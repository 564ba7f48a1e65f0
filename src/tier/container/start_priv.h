#pragma once
#include "tier/tier.h"

/* The tier's operations, as tier.h describes them. */
int container_start(const struct spec *spec, const struct tier_res *res, struct tier_box *ret, struct err *e);
void container_probe(struct tier_report *r);
