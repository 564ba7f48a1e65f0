#pragma once
/* Giving privilege up for good. Called in children only, before anything of the caller's runs. */
#include "guest/user.h"

#include <stdbool.h>

/* Become the user: groups, group, user. 0 or -errno; nothing may run after a failure. */
int must_check priv_become(const struct user *u);
/* All five capability sets empty; with keep_files those for file ownership stay (ambient too, as far
 * as PID 1 was given them). 0 or -errno. */
int must_check priv_drop(bool keep_files);
