#pragma once
#include "tier/tier.h"

/* The tier's operations, as tier.h describes them. */
int container_prepare(const struct spec *spec, const struct tier_res *res, struct tier_start **ret, struct err *e);
int container_start(struct tier_start *s, struct tier_box *ret, struct err *e);
int container_serve(struct tier_start *s, struct tier_box *ret, struct err *e);
void container_release(struct tier_start *s);
void container_probe(struct tier_report *r);
