#include "image/recipe.h"
/*
 * Read event by event (core/yaml_plain.h), each word checked by what it is for before anything keeps it. Keys,
 * shapes and checks are the rows of recipe_keys.def.
 */
#include "base/num.h"
#include "base/quote.h"
#include "base/suggest.h"
#include "core/yaml_plain.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define LOWER "abcdefghijklmnopqrstuvwxyz"
#define DIGITS "0123456789"
#define UPPER "ABCDEFGHIJKLMNOPQRSTUVWXYZ"

/* n bytes, not empty, of these characters, and no option. */
static bool is_made_of(const char *s, size_t n, const char *of)
{
	return n > 0 && s[0] != '-' && strspn(s, of) >= n;
}
static bool is_name_n(const char *s, size_t n)
{
	return n > 1 && n < 128 && strchr(LOWER DIGITS, s[0]) != NULL && is_made_of(s, n, LOWER DIGITS "+-.");
}
static bool is_name(const char *s) { return is_name_n(s, strlen(s)); }
bool recipe_is_pinned(const char *s)
{
	const char *v = strchr(s, '=');

	return v != NULL && is_name_n(s, (size_t)(v - s)) && strchr(DIGITS, v[1]) != NULL &&
	       is_made_of(v + 1, strlen(v + 1), LOWER UPPER DIGITS ".+-~:") && strlen(v) < 128;
}
static bool is_package(const char *s) { return is_name(s) || recipe_is_pinned(s); }
static bool is_suite(const char *s) { return strlen(s) < 64 && is_made_of(s, strlen(s), LOWER DIGITS "-"); }
static bool is_user(const char *s)
{
	return strlen(s) <= 32 && strchr(LOWER "_", s[0]) != NULL && is_made_of(s, strlen(s), LOWER DIGITS "_-") &&
	       strcmp(s, "root") != 0;
}
static bool is_path(const char *s)
{
	return s[0] == '/' && is_made_of(s, strlen(s), LOWER UPPER DIGITS "/._+-") && strstr(s, "/..") == NULL;
}
static bool is_env(const char *s) { return s[0] != '=' && strchr(s, '=') != NULL && strchr(s, '\n') == NULL; }
static bool is_any(const char *s) { return s[0] != '\0'; }
static bool is_time(const char *s)
{
	return strlen(s) == 16 && strspn(s, DIGITS) == 8 && s[8] == 'T' && strspn(s + 9, DIGITS) == 6 && s[15] == 'Z';
}
/* A URL, a suite, components; single spaces between. */
bool recipe_is_mirror(const char *s)
{
	size_t n = strcspn(s, " ");
	const char *host = strncmp(s, "http://", 7) == 0 ? s + 7 : strncmp(s, "https://", 8) == 0 ? s + 8 : NULL;

	if (host == NULL || strlen(s) >= 512 || host >= s + n || host[0] == '/' ||
	    !is_made_of(s, n, LOWER UPPER DIGITS ":/._+~-"))
		return false;
	while (s[n] == ' ') {
		s += n + 1;
		n = strcspn(s, " ");
		if (!is_made_of(s, n, LOWER DIGITS "-/."))
			return false;
	}
	return true;
}
static bool is_mirror(const char *s) { return recipe_is_mirror(s); }

enum shape { WORD, WORDS };
static const struct {
	const char *name, *text;
	enum shape shape;
	size_t field;
	bool (*check)(const char *);
} keys[] = {
#define KEY(id, name, shape, field, check, text) {name, text, shape, offsetof(struct recipe, field), check},
#include "image/recipe_keys.def"
#undef KEY
};

struct reader {
	struct yaml_plain y;
	struct recipe *out;
};
#define SAY(r, ...) yaml_plain_say(&(r)->y, yaml_plain_line(&(r)->y), __VA_ARGS__)

static int read_word(struct reader *r, enum recipe_key k, const char **ret)
{
	char q[QUOTE_MAX];

	if (r->y.ev.type != YAML_SCALAR_EVENT)
		return SAY(r, "%s: %s is expected here", keys[k].name, keys[k].text);
	*ret = yaml_plain_word(&r->y);
	if ((*ret)[0] == '\0' || strlen(*ret) > RECIPE_WORD_MAX || !keys[k].check(*ret))
		return SAY(r, "%s: %s cannot stand here: %s is expected", keys[k].name, quote(*ret, q), keys[k].text);
	return 0;
}

static int read_words(struct reader *r, enum recipe_key k, struct strv *v)
{
	const char *word = "";
	int ret;

	if (r->y.ev.type != YAML_SEQUENCE_START_EVENT)
		return SAY(r, "%s: a list is expected, such as [a, b]", keys[k].name);
	while ((ret = yaml_plain_next(&r->y)) == 0 && r->y.ev.type != YAML_SEQUENCE_END_EVENT) {
		ret = read_word(r, k, &word);
		if (ret < 0)
			return ret;
		if (v->n == RECIPE_WORDS_MAX)
			return SAY(r, "%s: more than %d words", keys[k].name, RECIPE_WORDS_MAX);
		if (k == RECIPE_PACKAGES)
			r->out->package_line[v->n] = yaml_plain_line(&r->y);
		if (strv_add(v, word) < 0)
			return SAY(r, "out of memory");
	}
	return ret;
}

static int read_value(struct reader *r, enum recipe_key k)
{
	void *field = (char *)r->out + keys[k].field;
	const char *word = "";
	int ret = yaml_plain_next(&r->y);

	if (ret < 0)
		return ret;
	if (keys[k].shape == WORDS)
		return read_words(r, k, field);
	ret = read_word(r, k, &word);
	if (ret == 0 && (*(char **)field = strdup(word)) == NULL)
		ret = SAY(r, "out of memory");
	return ret;
}

static int find_key(struct reader *r, enum recipe_key *ret)
{
	struct suggest near = SUGGEST(yaml_plain_word(&r->y));
	char q[QUOTE_MAX];

	for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
		if (strcmp(keys[i].name, near.word) == 0) {
			*ret = (enum recipe_key)i;
			return 0;
		}
		suggest_offer(&near, keys[i].name);
	}
	return SAY(r, "unknown key %s%s%s%s", quote(near.word, q), near.best != NULL ? ": did you mean '" : "",
		   near.best != NULL ? near.best : "", near.best != NULL ? "'?" : "");
}

static int read_keys(struct reader *r)
{
	int ret;

	while ((ret = yaml_plain_next(&r->y)) == 0 && r->y.ev.type != YAML_MAPPING_END_EVENT) {
		enum recipe_key k = RECIPE_KEY_COUNT;

		if (r->y.ev.type != YAML_SCALAR_EVENT)
			return SAY(r, "a key is expected here");
		ret = find_key(r, &k);
		if (ret < 0)
			return ret;
		if (r->out->line[k] != 0)
			return SAY(r, "%s is given twice (first in line %d)", keys[k].name, r->out->line[k]);
		r->out->line[k] = yaml_plain_line(&r->y);
		ret = read_value(r, k);
		if (ret < 0)
			return ret;
	}
	if (ret == 0 && r->out->line[RECIPE_SUITE] == 0)
		ret = yaml_plain_say(&r->y, 1, "suite is missing: which Debian? 'suite: bookworm'");
	if (ret == 0 && r->out->line[RECIPE_PACKAGES] == 0)
		ret = yaml_plain_say(&r->y, 1, "packages is missing: at least 'packages: []'");
	if (ret == 0 && r->out->snapshot != NULL && r->out->mirrors.n > 0)
		ret = yaml_plain_say(&r->y, r->out->line[RECIPE_SNAPSHOT], "snapshot and mirrors: only one of them");
	return ret;
}

int recipe_load(const char *file, const char *text, size_t n, struct recipe *ret, struct err *e)
{
	struct reader r = {.y = {.file = file, .kind = "recipe", .e = e}, .out = ret};
	int done;

	*ret = (struct recipe){.suite = NULL};
	if (n > RECIPE_MAX)
		return err_set(e, ERR_INVALID, EFBIG, "%.100s: larger than %d KiB", file, RECIPE_MAX / 1024);
	done = yaml_plain_open(&r.y, text, n);
	if (done < 0)
		return done;
	done = yaml_plain_begin(&r.y, "suite: bookworm");
	if (done == 0)
		done = read_keys(&r);
	if (done == 0)
		done = yaml_plain_end(&r.y);
	yaml_plain_done(&r.y);
	if (done < 0)
		recipe_done(ret);
	return done;
}

void recipe_done(struct recipe *r)
{
	for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
		void *field = (char *)r + keys[i].field;

		if (keys[i].shape == WORDS)
			strv_done(field);
		else
			free(*(char **)field);
	}
	*r = (struct recipe){.suite = NULL};
}
