#pragma once
/* From --file, --out, --exclude, --gitignore and --out-patch to the copies of a launch. */
#include "cli/launch_files.h"
#include "cli/run_args.h"
#include "cli/run_path.h"
#include "cli/script.h"

/* One thing that was copied in, before and after the command, for --out-patch. */
struct patch_item {
	char *name;   /* path in the patch; "" = the top */
	char *inside;
	struct copy_tee before, after; /* pack streams; empty `after`: it is gone */
};

struct run_files {
	struct launch_files *list; /* NULL = nothing to copy */
	struct patch_item *patch;
	uint32_t patch_n;
	struct path_pair *outs; /* what the copies out refer to */
	uint32_t outs_n;
	struct copy_room out_room, patch_room; /* of all copies out, and of all `after`, together */
};

/* Measure and check everything; nothing is copied yet. script may be NULL. */
int must_check run_files_plan(const struct run_args *a, const struct script *script,
			      struct run_files *ret, struct err *e);
/* A file or folder that is to be made: does the folder above it exist? */
int must_check run_files_check_target(const char *path, struct err *e);
void run_files_done(struct run_files *f);
