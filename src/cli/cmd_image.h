#pragma once
/* What the sub-commands of `brig image` share. */
#include "cmd/command.h"
#include "image/image.h"

#include <stdbool.h>

struct image_box;

#define IMAGE_COMMAND(id, name, usage, summary) extern const struct command_impl image_command_##id;
#include "cli/image_commands.def"
#undef IMAGE_COMMAND

/* Say how to get help after wrong usage of a sub-command ("list"). Returns EXIT_FAULT. */
int image_usage(const char *sub, const struct err *e);
/* Show how far a long intake is, on a terminal; an image_progress. */
void image_show_progress(void *arg, uint64_t bytes, uint64_t entries);
/* What to do with an image that came in. */
struct image_keep {
	const char *name;      /* "name[:tag]"; NULL = none */
	bool json;             /* how to say it */
	struct image_box *erofs; /* also make its EROFS file, in a box with these limits; NULL = do not */
};
/* Give it its place and name, and say what came in. */
int must_check image_keep(struct image_new *n, const struct image_meta *m, const struct image_keep *k, struct err *e);
/* Say what came in, as text or JSON, after image_commit. */
int image_say_taken(const struct image_new *n, const char *digest, const char *name, bool json);
