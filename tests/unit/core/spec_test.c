#include "core/spec.h"
#include "core/profile.h"
#include "harness/test.h"

#include <stdlib.h>
#include <string.h>

#define MIB (1024ULL * 1024)

static void fill(struct spec *s)
{
	spec_init(s);
	s->tier = strdup("container");
	s->image = strdup("host");
}

/* Is the spec refused with a message that begins with the setting's name? */
static int refused(struct spec *s, const char *setting)
{
	struct err e = ERR_INIT;
	int r = spec_check(s, &e), ok = r < 0 && strncmp(e.msg, setting, strlen(setting)) == 0;

	if (!ok)
		printf("# %s: %d %s\n", setting, r, e.msg);
	spec_done(s);
	return ok;
}

TEST(defaults_are_valid)
{
	struct spec s;

	fill(&s);
	CHECK(spec_check(&s, NULL) == 0);
	spec_done(&s);
	spec_done(&s); /* twice is fine */
}

TEST(ids_are_new_and_plain)
{
	struct spec a, b;

	spec_init(&a);
	spec_init(&b);
	spec_new_id(&a);
	spec_new_id(&b);
	CHECK(strlen(a.id) == 20 && strcmp(a.id, b.id) != 0);
	CHECK(strspn(a.id, "abcdefghijklmnopqrstuvwxyz0123456789") == 20);
}

#define REFUSES(setting, ...)                                                                      \
	do {                                                                                       \
		struct spec s;                                                                     \
		fill(&s);                                                                          \
		__VA_ARGS__;                                                                       \
		CHECK(refused(&s, setting));                                                       \
	} while (0)

static void set(char **dst, const char *v)
{
	free(*dst);
	*dst = v != NULL ? strdup(v) : NULL;
}

TEST(words_out_of_range)
{
	REFUSES("tier", set(&s.tier, NULL));
	REFUSES("tier", set(&s.tier, "auto"));
	REFUSES("image", set(&s.image, NULL));
	REFUSES("image", set(&s.image, "relative/path"));
	REFUSES("user", set(&s.user, ""));
	REFUSES("user", set(&s.user, "-x"));
	REFUSES("user", set(&s.user, "a b"));
	REFUSES("user", set(&s.user, "1:2:3"));
	REFUSES("user", set(&s.user, "1:"));
	REFUSES("workdir", set(&s.workdir, "rel"));
	REFUSES("hostname", set(&s.hostname, "-a"));
	REFUSES("env", CHECK(strv_add(&s.env, "NOVALUE") == 0));
	REFUSES("env", CHECK(strv_add(&s.env, "=x") == 0));
	REFUSES("env", CHECK(strv_add(&s.env, "A B=x") == 0));
	REFUSES("env", CHECK(strv_add(&s.env, "1A=x") == 0));
}

TEST(a_refused_variable_does_not_show_its_value)
{
	struct err e = ERR_INIT;
	struct spec s;

	fill(&s);
	CHECK(strv_add(&s.env, "A-B=hunter2") == 0);
	CHECK(spec_check(&s, &e) < 0);
	CHECK(strstr(e.msg, "A-B") != NULL && strstr(e.msg, "hunter2") == NULL);
	spec_done(&s);
}

TEST(numbers_out_of_range)
{
	REFUSES("disk", s.disk = 0);
	REFUSES("disk", s.disk = UINT64_MAX);
	REFUSES("memory", s.memory = 1);
	REFUSES("memory", s.memory = UINT64_MAX);
	REFUSES("inodes", s.inodes = 0);
	REFUSES("cpus", s.cpu_milli = 1);
	REFUSES("cpus", s.cpu_milli = UINT32_MAX);
	REFUSES("pids", s.pids = 1);
	REFUSES("pids", s.pids = UINT32_MAX);
	REFUSES("timeout", s.timeout_ms = UINT64_MAX);
}

TEST(disk_and_slack_must_fit_into_memory)
{
	REFUSES("disk", s.memory = 512 * MIB; s.disk = 512 * MIB);
	REFUSES("disk", s.memory = 512 * MIB; s.disk = 448 * MIB + 1);
}

TEST(disk_that_fits_into_memory)
{
	struct spec s;

	fill(&s);
	s.memory = 512 * MIB;
	s.disk = 448 * MIB;
	CHECK(spec_check(&s, NULL) == 0);
	s.memory = 0; /* no limit: any disk */
	s.disk = 4096 * MIB;
	CHECK(spec_check(&s, NULL) == 0);
	spec_done(&s);
}

TEST(a_default_disk_gives_way)
{
	struct spec s;

	fill(&s);
	s.memory = 96 * MIB;
	spec_fit_disk(&s);
	CHECK(s.disk == 32 * MIB && spec_check(&s, NULL) == 0);
	s.memory = 64 * MIB; /* too small even so: refused, not wrapped */
	spec_fit_disk(&s);
	CHECK(spec_check(&s, NULL) < 0);
	spec_done(&s);
}

TEST(users)
{
	static const char *const good[] = {"root", "user", "1000", "1000:1000", "www-data", "a.b_c"};
	struct spec s;

	fill(&s);
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		set(&s.user, good[i]);
		CHECK(spec_check(&s, NULL) == 0);
	}
	spec_done(&s);
}

TEST(env_is_replaced_by_name)
{
	struct strv v = {NULL, 0};

	CHECK(env_put(&v, "A=1") == 0 && env_put(&v, "AB=2") == 0 && env_put(&v, "A=3") == 0);
	CHECK(v.n == 2 && strcmp(v.v[0], "A=3") == 0 && strcmp(v.v[1], "AB=2") == 0);
	CHECK(v.v[2] == NULL);
	strv_done(&v);
}

TEST(require_words)
{
	struct err e = ERR_INIT;
	uint32_t bit = 0;

	CHECK(require_parse("limits", 6, &bit, NULL) == 0 && bit == REQ_NEED_LIMITS);
	CHECK(require_parse("limit", 5, &bit, &e) < 0 && strstr(e.msg, "'limits'") != NULL);
	CHECK(require_parse("", 0, &bit, &e) < 0);
}
TEST_MAIN()
