#pragma once
/* --out-patch: what the command changed in the files that were copied in, for `git apply`. */
#include "cli/run_files.h"

/* Compare and write. Starts a second sandbox, because both git and its input are not trusted. */
int must_check run_patch(const struct run_args *a, const struct run_files *f, struct err *e);
