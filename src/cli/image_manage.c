/* `brig image tag`, `verify`, `remove` and `gc`: names, and what is worth keeping. */
#include "base/num.h"
#include "cli/cmd_image.h"
#include "cmd/say.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define OPT_WANT_JSON
#include "cli/options_common.h"

static int done(bool json, const char *text)
{
	if (json)
		(void)printf("%s\n", text);
	return fflush(stdout) == 0 ? 0 : EXIT_FAULT;
}

static int tag_run(int argc, char **argv)
{
	struct image_found f = {.lock_fd = -1};
	struct err e = ERR_INIT;
	bool json;
	int at, r = opt_one(opts, ARRAY_LEN(opts), argv, O_JSON, &json, &at, &e);

	if (r == 0 && argc - at != 2)
		r = err_set(&e, ERR_INVALID, EINVAL, "an IMAGE and a NAME are needed");
	if (r < 0)
		return image_usage("tag", &e);
	r = image_resolve(argv[at], &f, &e);
	if (r == 0)
		r = image_tag(f.digest, argv[at + 1], &e);
	image_found_done(&f);
	return r < 0 ? say_err(&e) : done(json, "{\"tagged\":true}");
}

static int verify_run(int argc, char **argv)
{
	struct image_found f = {.lock_fd = -1};
	struct image_info info;
	struct err e = ERR_INIT;
	bool json;
	int at, r = opt_one(opts, ARRAY_LEN(opts), argv, O_JSON, &json, &at, &e);

	if (r == 0 && argc - at != 1)
		r = err_set(&e, ERR_INVALID, EINVAL, "one IMAGE is needed");
	if (r < 0)
		return image_usage("verify", &e);
	r = image_resolve(argv[at], &f, &e);
	if (r == 0 && (r = image_info_read(&f, &info, &e)) == 0)
		image_info_done(&info);
	if (r == 0)
		r = image_verify(&f, &e);
	image_found_done(&f);
	if (r < 0)
		return say_err(&e);
	if (!json)
		(void)printf("sha256:%s is as it was made\n", f.digest);
	return done(json, "{\"verified\":true}");
}

static int remove_run(int argc, char **argv)
{
	struct err e = ERR_INIT;
	bool json;
	int at, r = opt_one(opts, ARRAY_LEN(opts), argv, O_JSON, &json, &at, &e);

	if (r == 0 && argc - at < 1)
		r = err_set(&e, ERR_INVALID, EINVAL, "at least one IMAGE is needed");
	if (r < 0)
		return image_usage("remove", &e);
	for (; r == 0 && at < argc; at++)
		r = image_remove(argv[at], &e);
	return r < 0 ? say_err(&e) : done(json, "{\"removed\":true}");
}

static int gc_run(int argc, char **argv)
{
	struct err e = ERR_INIT;
	char text[64];
	bool json;
	int r = opt_alone(opts, ARRAY_LEN(opts), argv, O_JSON, &json, &e);

	(void)argc;
	if (r < 0)
		return image_usage("gc", &e);
	r = image_gc(&e);
	if (r < 0)
		return say_err(&e);
	(void)snprintf(text, sizeof(text), "{\"removed\":%d}", r);
	if (!json)
		(void)printf("%d image%s removed\n", r, r == 1 ? "" : "s");
	return done(json, text);
}

#define IMPL(id) \
	const struct command_impl image_command_##id = { \
	    .run = id##_run, .opts = opts, .nopts = ARRAY_LEN(opts), .words = ""}
IMPL(tag);
IMPL(verify);
IMPL(remove);
IMPL(gc);
