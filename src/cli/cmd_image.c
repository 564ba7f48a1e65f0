/* `brig image SUB ...`: the way into the sub-commands, by table. */
#include "cli/cmd_image.h"

#include "base/num.h"
#include "base/quote.h"
#include "base/suggest.h"
#include "base/units.h"
#include "cmd/help.h"
#include "cli/image_box.h"
#include "cmd/say.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/options_common.h"

static const struct command subs[] = {
#define IMAGE_COMMAND(id, name, usage, summary) {"image " name, usage, summary, &image_command_##id},
#include "cli/image_commands.def"
#undef IMAGE_COMMAND
};

static const char *short_name(const struct command *c) { return c->name + strlen("image "); }

int image_usage(const char *sub, const struct err *e)
{
	char name[64];

	(void)snprintf(name, sizeof(name), "image %s", sub);
	return say_usage(name, e);
}

static const struct command *find(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(subs); i++)
		if (strcmp(short_name(&subs[i]), name) == 0)
			return &subs[i];
	return NULL;
}

static int unknown(const char *name)
{
	struct suggest s = SUGGEST(name);
	struct err e = ERR_INIT;
	char q[QUOTE_MAX];

	for (size_t i = 0; i < ARRAY_LEN(subs); i++)
		suggest_offer(&s, short_name(&subs[i]));
	(void)err_set(&e, ERR_INVALID, EINVAL, "unknown word %s%s%s%s", quote(name, q),
		      s.best != NULL ? ": did you mean '" : "", s.best != NULL ? s.best : "", s.best != NULL ? "'?" : "");
	return say_usage("image", &e);
}

static int image_run(int argc, char **argv)
{
	const struct command *c;
	struct err e = ERR_INIT;

	if (argc < 2 || argv[1][0] == '-') {
		(void)err_set(&e, ERR_INVALID, EINVAL, "one of its words is needed: import, list, show, ...");
		return say_usage("image", &e);
	}
	c = find(argv[1]);
	if (c == NULL)
		return unknown(argv[1]);
	if (command_wants_help(c, argv + 1))
		return help_command(c);
	return c->impl->run(argc - 1, argv + 1);
}

void image_show_progress(void *arg, uint64_t bytes, uint64_t entries)
{
	char size[UNITS_TEXT], line[96];

	if (!*(const bool *)arg)
		return;
	(void)snprintf(line, sizeof(line), "taking in: %s, %" PRIu64 " entries", units_size_text(bytes >> 20 << 20, size),
		       entries);
	say_status(line, false);
}

int image_say_taken(const struct image_new *n, const char *digest, const char *name, bool json)
{
	const struct image_stats *st = image_new_stats(n);

	if (json) {
		(void)printf("{\"digest\":\"sha256:%s\",\"name\":%s%s%s,\"bytes\":%" PRIu64 ",\"entries\":%" PRIu64
			     ",\"left_out\":%" PRIu64 "}\n",
			     digest, name != NULL ? "\"" : "", name != NULL ? name : "null", name != NULL ? "\"" : "",
			     st->bytes, st->entries, st->left_out);
	} else {
		(void)printf("sha256:%s\n", digest);
		if (st->left_out > 0)
			say("%" PRIu64 " device nodes and fifos were left out", st->left_out);
	}
	return fflush(stdout) == 0 ? 0 : EXIT_FAULT;
}

static int keep_erofs(const char *digest, struct image_box *b, struct err *e)
{
	struct image_found f = {.lock_fd = -1};
	char ref[IMAGE_DIGEST_LEN + 8];
	struct image_erofs file;
	int r;

	(void)snprintf(ref, sizeof(ref), "sha256:%s", digest);
	r = image_resolve(ref, &f, e);
	if (r == 0)
		r = image_erofs_need(&f, b, false, &file, e);
	image_found_done(&f);
	return r;
}

int image_keep(struct image_new *n, const struct image_meta *m, const struct image_keep *k, struct err *e)
{
	char digest[IMAGE_DIGEST_LEN + 1];
	int r = image_commit(n, m, k->name, digest, e);

	if (r == 0 && k->erofs != NULL)
		r = keep_erofs(digest, k->erofs, e);
	if (r == 0 && image_say_taken(n, digest, k->name, k->json) != 0)
		r = err_set(e, ERR_INTERNAL, EIO, "standard output cannot be written");
	return r;
}

const struct command_impl command_image = {
    .run = image_run,
    .opts = opts,
    .nopts = ARRAY_LEN(opts),
    .notes = "Words:\n"
#define IMAGE_COMMAND(id, name, usage, summary) "  " name " " usage "\n      " summary "\n"
#include "cli/image_commands.def"
#undef IMAGE_COMMAND
	     "\nIMAGE is NAME[:TAG] or sha256:DIGEST (12 digits at least). 'brig image WORD --help' has\n"
	     "the options of each. 'brig run --image NAME' runs on one.\n",
    .words =
#define IMAGE_COMMAND(id, name, usage, summary) name " "
#include "cli/image_commands.def"
#undef IMAGE_COMMAND
	,
};
