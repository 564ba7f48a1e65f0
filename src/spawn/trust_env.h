#pragma once
#include "base/err.h"
#include "core/spec.h"

/*
 * The environment of commands where the rules end TLS: where programs find the certificates that the sandbox trusts
 * (TIER_TRUST_PATH), and each placeholder of a secret under its own name, if it can be a variable's. What the caller
 * set stays. 0, or -errno with e.
 */
int must_check trust_env(struct spec *s, struct err *e);
