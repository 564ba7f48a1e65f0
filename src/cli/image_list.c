/* `brig image list`. */
#include "base/num.h"
#include "base/units.h"
#include "cli/cmd_image.h"
#include "cmd/say.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <time.h>

#define OPT_WANT_JSON
#include "cli/options_common.h"

struct listing {
	json_t *all; /* NULL: as text */
	uint32_t n;
};

static bool one(void *arg, const char *digest, const char *name)
{
	struct listing *l = arg;
	struct image_info info = {.bytes = 0};
	struct image_found f;
	char ref[IMAGE_DIGEST_LEN + 8], size[UNITS_TEXT], file[UNITS_TEXT], day[16] = "?";
	time_t t;
	struct tm tm;

	(void)snprintf(ref, sizeof(ref), "sha256:%s", digest);
	if (image_resolve(ref, &f, NULL) < 0)
		return true; /* removed meanwhile */
	if (image_info_read(&f, &info, NULL) < 0)
		name = name != NULL ? name : "(damaged)";
	t = (time_t)info.created;
	if (gmtime_r(&t, &tm) != NULL)
		(void)strftime(day, sizeof(day), "%Y-%m-%d", &tm);
	if (l->all != NULL)
		(void)json_array_append_new(
		    l->all, json_pack("{s:s?, s:s, s:I, s:I, s:I, s:I, s:s?}", "name", name, "digest", ref,
				      "bytes", (json_int_t)info.bytes, "erofs", (json_int_t)info.erofs, "entries", (json_int_t)info.entries, "created",
				      (json_int_t)info.created, "source", info.source));
	else
		(void)printf("%-32s %.12s  %10s  %10s  %s\n", name != NULL ? name : "-", digest,
			     units_size_text(info.bytes >> 10 << 10, size),
			     info.erofs > 0 ? units_size_text(info.erofs >> 10 << 10, file) : "-", day);
	l->n++;
	image_info_done(&info);
	image_found_done(&f);
	return true;
}

static int list_run(int argc, char **argv)
{
	struct listing l = {.all = NULL};
	struct err e = ERR_INIT;
	bool json;
	int r = opt_alone(opts, ARRAY_LEN(opts), argv, O_JSON, &json, &e);

	(void)argc;
	if (r < 0)
		return image_usage("list", &e);
	if (json)
		l.all = json_array();
	else
		(void)printf("%-32s %-12s  %10s  %10s  %s\n", "NAME", "DIGEST", "SIZE", "EROFS", "CREATED");
	r = image_list(one, &l, &e);
	if (r == 0 && json)
		(void)json_dumpf(l.all, stdout, JSON_INDENT(2));
	if (json)
		(void)putchar('\n');
	json_decref(l.all);
	if (r < 0)
		return say_err(&e);
	return fflush(stdout) == 0 ? 0 : EXIT_FAULT;
}

const struct command_impl image_command_list = {.run = list_run, .opts = opts, .nopts = ARRAY_LEN(opts), .words = ""};
