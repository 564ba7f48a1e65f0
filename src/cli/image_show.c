/* `brig image show IMAGE`. */
#include "base/num.h"
#include "base/quote.h"
#include "base/units.h"
#include "cli/cmd_image.h"
#include "cmd/say.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>

#define OPT_WANT_JSON
#include "cli/options_common.h"

static json_t *words(const struct strv *v)
{
	json_t *a = json_array();

	for (uint32_t i = 0; i < v->n; i++)
		(void)json_array_append_new(a, json_string(v->v[i]));
	return a;
}

static void print_json(const struct image_found *f, const struct image_info *i)
{
	json_t *j = json_pack("{s:s+, s:s, s:s?, s:s?, s:I, s:I, s:I, s:I, s:I, s:b, s:s?, s:s?, s:s?, s:o, s:o}", "digest",
			      "sha256:", f->digest, "tree", f->tree, "source", i->source, "source_digest",
			      i->source_digest, "created", (json_int_t)i->created, "bytes", (json_int_t)i->bytes,
			      "entries", (json_int_t)i->entries, "left_out", (json_int_t)i->left_out, "erofs",
			      (json_int_t)i->erofs, "one_owner",
			      i->one_owner, "user", i->user, "workdir", i->workdir, "arch", i->arch, "env",
			      words(&i->env), "cmd", words(&i->cmd));

	(void)json_dumpf(j, stdout, JSON_INDENT(2));
	(void)putchar('\n');
	json_decref(j);
}

/* Texts come from images: quoted. */
static void line(const char *key, const char *text)
{
	char q[QUOTE_MAX];

	if (text != NULL)
		(void)printf("%-10s %s\n", key, quote(text, q));
}

static void print_text(const struct image_found *f, const struct image_info *i)
{
	char size[UNITS_TEXT];

	(void)printf("digest     sha256:%s\n", f->digest);
	(void)printf("tree       %s\n", f->tree);
	line("source", i->source);
	line("from", i->source_digest);
	(void)printf("size       %s in %" PRIu64 " entries\n", units_size_text(i->bytes >> 10 << 10, size), i->entries);
	if (i->erofs > 0)
		(void)printf("erofs      %s/image.erofs, %s\n", f->dir, units_size_text(i->erofs >> 10 << 10, size));
	if (i->left_out > 0)
		(void)printf("left out   %" PRIu64 " device nodes and fifos\n", i->left_out);
	if (i->one_owner)
		(void)printf("owners     one: it was made by an ordinary user\n");
	line("user", i->user);
	line("workdir", i->workdir);
	line("arch", i->arch);
	for (uint32_t k = 0; k < i->env.n; k++)
		line("env", i->env.v[k]);
	for (uint32_t k = 0; k < i->cmd.n; k++)
		line("cmd", i->cmd.v[k]);
}

static int show_run(int argc, char **argv)
{
	struct image_found f = {.lock_fd = -1};
	struct image_info info;
	struct err e = ERR_INIT;
	bool json;
	int at, r = opt_one(opts, ARRAY_LEN(opts), argv, O_JSON, &json, &at, &e);

	(void)argc;
	if (r == 0 && (argv[at] == NULL || argv[at + 1] != NULL))
		r = err_set(&e, ERR_INVALID, EINVAL, "one IMAGE is needed");
	if (r < 0)
		return image_usage("show", &e);
	r = image_resolve(argv[at], &f, &e);
	if (r == 0)
		r = image_info_read(&f, &info, &e);
	if (r == 0) {
		if (json)
			print_json(&f, &info);
		else
			print_text(&f, &info);
		image_info_done(&info);
	}
	image_found_done(&f);
	if (r < 0)
		return say_err(&e);
	return fflush(stdout) == 0 ? 0 : EXIT_FAULT;
}

const struct command_impl image_command_show = {.run = show_run, .opts = opts, .nopts = ARRAY_LEN(opts), .words = ""};
