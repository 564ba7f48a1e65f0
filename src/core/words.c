/*
 * The words that profiles and the command line share: environment entries, the names --require
 * takes, and the values of root, root_caps and sudo. Input is what a person or a file wrote.
 */
#include "base/num.h"
#include "base/quote.h"
#include "base/suggest.h"
#include "core/profile.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int env_put(struct strv *env, const char *kv)
{
	size_t n = strcspn(kv, "=");

	for (uint32_t i = 0; i < env->n; i++) {
		char *copy;

		if (strncmp(env->v[i], kv, n) != 0 || env->v[i][n] != '=')
			continue;
		copy = strdup(kv);
		if (copy == NULL)
			return -ENOMEM;
		free(env->v[i]);
		env->v[i] = copy;
		return 0;
	}
	return strv_add(env, kv);
}

static const struct {
	const char *name;
	uint32_t bit;
} requires[] = {
#define REQUIRE(id, bit, name, text) {name, REQ_NEED_##id},
#include "core/require.def"
#undef REQUIRE
};

const char *require_word(uint32_t set, size_t *at)
{
	while (*at < ARRAY_LEN(requires)) {
		size_t i = (*at)++;

		if ((set & requires[i].bit) != 0)
			return requires[i].name;
	}
	return NULL;
}

int require_parse(const char *word, size_t len, uint32_t *ret, struct err *e)
{
	static const char names[] =
#define REQUIRE(id, bit, name, text) " " name
#include "core/require.def"
#undef REQUIRE
	    ;
	char copy[SUGGEST_LEN_MAX + 1], q[QUOTE_MAX];
	struct suggest s = SUGGEST(copy);

	for (size_t i = 0; i < ARRAY_LEN(requires); i++)
		if (strlen(requires[i].name) == len && memcmp(requires[i].name, word, len) == 0) {
			*ret = requires[i].bit;
			return 0;
		}
	if (len < sizeof(copy)) {
		memcpy(copy, word, len);
		copy[len] = '\0';
		for (size_t i = 0; i < ARRAY_LEN(requires); i++)
			suggest_offer(&s, requires[i].name);
	}
	if (s.best != NULL)
		return err_set(e, ERR_INVALID, EINVAL, "unknown word %s: did you mean '%s'?",
			       quote_n(word, len, q), s.best);
	return err_set(e, ERR_INVALID, EINVAL, "unknown word %s: it takes%s", quote_n(word, len, q), names);
}

const char *root_mode_name(enum root_mode m) { return m == ROOT_OVERLAY ? "overlay" : "readonly"; }
const char *root_caps_name(enum root_caps c) { return c == ROOT_CAPS_FILES ? "files" : "none"; }
const char *sudo_use_name(enum sudo_use u) { return u == SUDO_NO ? "no" : "yes"; }

int root_mode_parse(const char *word, enum root_mode *ret, struct err *e)
{
	char q[QUOTE_MAX];

	if (strcmp(word, "readonly") != 0 && strcmp(word, "overlay") != 0)
		return err_set(e, ERR_INVALID, EINVAL, "%s is neither 'readonly' nor 'overlay'",
			       quote(word, q));
	*ret = word[0] == 'r' ? ROOT_READONLY : ROOT_OVERLAY;
	return 0;
}

int root_caps_parse(const char *word, enum root_caps *ret, struct err *e)
{
	char q[QUOTE_MAX];

	if (strcmp(word, "none") != 0 && strcmp(word, "files") != 0)
		return err_set(e, ERR_INVALID, EINVAL, "%s is neither 'none' nor 'files'",
			       quote(word, q));
	*ret = word[0] == 'n' ? ROOT_CAPS_NONE : ROOT_CAPS_FILES;
	return 0;
}

int sudo_use_parse(const char *word, enum sudo_use *ret, struct err *e)
{
	char q[QUOTE_MAX];

	if (strcmp(word, "yes") != 0 && strcmp(word, "no") != 0)
		return err_set(e, ERR_INVALID, EINVAL, "%s is neither 'yes' nor 'no'", quote(word, q));
	*ret = word[0] == 'y' ? SUDO_YES : SUDO_NO;
	return 0;
}
