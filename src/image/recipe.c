#include "image/recipe.h"
/* Form and types by libcyaml's schema, which refuses unknown keys; then each word by what it is for. */
#include "base/num.h"
#include "base/quote.h"

#include <cyaml/cyaml.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct list {
	char **v;
	unsigned int n;
};
struct raw {
	char *suite, *keyring, *user, *workdir;
	char **packages, **mirrors, **env, **cmd;
	unsigned int packages_count, mirrors_count, env_count, cmd_count;
};

static const cyaml_schema_value_t word_schema = {CYAML_VALUE_STRING(CYAML_FLAG_POINTER, char, 1, 4096)};

#define TEXT(key, flags) CYAML_FIELD_STRING_PTR(#key, CYAML_FLAG_POINTER | (flags), struct raw, key, 1, 4096)
#define LIST(key, flags, max) \
	CYAML_FIELD_SEQUENCE(#key, CYAML_FLAG_POINTER | (flags), struct raw, key, &word_schema, 0, max)
static const cyaml_schema_field_t fields[] = {
    TEXT(suite, 0),
    TEXT(keyring, CYAML_FLAG_OPTIONAL),
    TEXT(user, CYAML_FLAG_OPTIONAL),
    TEXT(workdir, CYAML_FLAG_OPTIONAL),
    LIST(packages, 0, RECIPE_PACKAGES_MAX),
    LIST(mirrors, CYAML_FLAG_OPTIONAL, RECIPE_MIRRORS_MAX),
    LIST(env, CYAML_FLAG_OPTIONAL, 256),
    LIST(cmd, CYAML_FLAG_OPTIONAL, 256),
    CYAML_FIELD_END,
};
static const cyaml_schema_value_t raw_schema = {CYAML_VALUE_MAPPING(CYAML_FLAG_POINTER, struct raw, fields)};

#define LOWER "abcdefghijklmnopqrstuvwxyz"
#define DIGITS "0123456789"
#define UPPER "ABCDEFGHIJKLMNOPQRSTUVWXYZ"

/* Not empty, of these characters, and no option. */
static bool is_word(const char *s, const char *of)
{
	return s[0] != '\0' && s[0] != '-' && s[strspn(s, of)] == '\0';
}
static bool is_package(const char *s) { return is_word(s, LOWER DIGITS "+-.") && strlen(s) < 128; }
static bool is_suite(const char *s) { return is_word(s, LOWER DIGITS "-") && strlen(s) < 64; }
static bool is_user(const char *s) { return is_word(s, LOWER DIGITS "_-") && strlen(s) <= 32 && strcmp(s, "root") != 0; }
static bool is_path(const char *s) { return s[0] == '/' && is_word(s, LOWER UPPER DIGITS "/._+-"); }
static bool is_env(const char *s) { return s[0] != '=' && strchr(s, '=') != NULL; }
static bool is_any(const char *s) { return s[0] != '\0'; }
static bool is_mirror(const char *s)
{
	return (strncmp(s, "http://", 7) == 0 || strncmp(s, "https://", 8) == 0) &&
	       is_word(s, LOWER UPPER DIGITS ":/._+~-") && strlen(s) < 512;
}

static int put(const char *file, const char *key, const char *v, bool (*ok)(const char *), char **ret, struct err *e)
{
	char q[QUOTE_MAX];

	if (v == NULL)
		return 0;
	if (!ok(v))
		return err_set(e, ERR_INVALID, EINVAL, "%.100s: %s: %s cannot stand there", file, key, quote(v, q));
	*ret = strdup(v);
	return *ret == NULL ? err_set(e, ERR_INTERNAL, ENOMEM, "out of memory") : 0;
}

static int put_list(const char *file, const char *key, struct list l, bool (*ok)(const char *), struct strv *ret,
		    struct err *e)
{
	char q[QUOTE_MAX];

	for (unsigned int i = 0; i < l.n; i++) {
		if (!ok(l.v[i]))
			return err_set(e, ERR_INVALID, EINVAL, "%.100s: %s: %s cannot stand there", file, key,
				       quote(l.v[i], q));
		if (strv_add(ret, l.v[i]) < 0)
			return err_set(e, ERR_INTERNAL, ENOMEM, "out of memory");
	}
	return 0;
}

static int put_all(const char *file, const struct raw *raw, struct recipe *r, struct err *e)
{
	int ret = put(file, "suite", raw->suite, is_suite, &r->suite, e);

	if (ret == 0)
		ret = put(file, "keyring", raw->keyring, is_path, &r->keyring, e);
	if (ret == 0)
		ret = put(file, "user", raw->user, is_user, &r->user, e);
	if (ret == 0)
		ret = put(file, "workdir", raw->workdir, is_path, &r->workdir, e);
	if (ret == 0)
		ret = put_list(file, "packages", (struct list){raw->packages, raw->packages_count}, is_package, &r->packages, e);
	if (ret == 0)
		ret = put_list(file, "mirrors", (struct list){raw->mirrors, raw->mirrors_count}, is_mirror, &r->mirrors, e);
	if (ret == 0)
		ret = put_list(file, "env", (struct list){raw->env, raw->env_count}, is_env, &r->env, e);
	return ret == 0 ? put_list(file, "cmd", (struct list){raw->cmd, raw->cmd_count}, is_any, &r->cmd, e) : ret;
}

/* The loader's own words for what went wrong: the first error line it logs. */
static void on_log(cyaml_log_t level, void *arg, const char *fmt, va_list args)
{
	char *first = arg;

	if (level != CYAML_LOG_ERROR || first[0] != '\0')
		return;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
	(void)vsnprintf(first, 120, fmt, args); /* libcyaml's own format strings */
#pragma GCC diagnostic pop
	first[strcspn(first, "\n")] = '\0';
}

int recipe_load(const char *file, const char *text, size_t n, struct recipe *ret, struct err *e)
{
	char log[120] = "";
	const cyaml_config_t config = {.log_fn = on_log,
				       .log_ctx = log,
				       .mem_fn = cyaml_mem,
				       .log_level = CYAML_LOG_ERROR,
				       .flags = CYAML_CFG_NO_ALIAS};
	struct raw *raw = NULL;
	cyaml_err_t c;
	int r;

	*ret = (struct recipe){.suite = NULL};
	if (n == 0 || n > RECIPE_MAX || memchr(text, '\0', n) != NULL)
		return err_set(e, ERR_INVALID, EINVAL, "%.100s: empty, larger than 64 KiB, or no text", file);
	c = cyaml_load_data((const uint8_t *)text, n, &config, &raw_schema, (cyaml_data_t **)&raw, NULL);
	if (c != CYAML_OK || raw == NULL)
		r = err_set(e, ERR_INVALID, EINVAL, "%.100s: %s: %s", file, cyaml_strerror(c), log);
	else
		r = put_all(file, raw, ret, e);
	if (raw != NULL)
		(void)cyaml_free(&config, &raw_schema, raw, 0);
	if (r < 0)
		recipe_done(ret);
	return r;
}

void recipe_done(struct recipe *r)
{
	free(r->suite);
	free(r->keyring);
	free(r->user);
	free(r->workdir);
	strv_done(&r->packages);
	strv_done(&r->mirrors);
	strv_done(&r->env);
	strv_done(&r->cmd);
	*r = (struct recipe){.suite = NULL};
}
