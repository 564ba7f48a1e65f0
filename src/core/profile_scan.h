#pragma once
/* First reading of a profile: its form. For src/core/profile.c only. */
#include "core/profile.h"

struct profile_scan {
	uint32_t set;                /* bit per key */
	int line[PROFILE_KEY_COUNT]; /* of each key, from 1 */
	struct strv env;             /* NAME=VALUE in file order; owned */
	struct yaml_node *egress;    /* rules of what may leave; owned, NULL = nothing may */
};

/* Check the form of the whole text. 0, or an error of the form "FILE:LINE: what". */
int must_check profile_scan(const char *file, const char *text, size_t len, struct profile_scan *ret,
			    struct err *e);
