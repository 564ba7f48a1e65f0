#include "core/profile_scan.h"
/*
 * The form of a profile, by libyaml's events.
 *
 * The schema-driven loader that follows takes values but neither reports repeated keys nor takes a
 * free map, and it would follow aliases. So this pass looks at every event first (core/yaml_plain.h refuses
 * what is not plain) and refuses unknown or repeated keys and a value of another shape. Nesting is at most two
 * deep because any other start event is refused at once. The text is hostile; it was cut to
 * PROFILE_MAX bytes by the caller.
 */
#include "base/num.h"
#include "base/quote.h"
#include "base/suggest.h"
#include "core/yaml_tree.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum shape { SCALAR, MAP, LIST, EGRESS };

static const struct {
	const char *name;
	enum shape shape;
} keys[] = {
#define KEY(id, name, shape, text) [PROFILE_##id] = {name, shape},
#include "core/profile_keys.def"
#undef KEY
};
_Static_assert(ARRAY_LEN(keys) == PROFILE_KEY_COUNT && PROFILE_KEY_COUNT <= 32, "profile_keys.def");

struct scan {
	struct yaml_plain y;
	struct profile_scan *out;
};

#define SAY(s, ...) yaml_plain_say(&(s)->y, yaml_plain_line(&(s)->y), __VA_ARGS__)
static int next(struct scan *s) { return yaml_plain_next(&s->y); }
static yaml_event_type_t type(const struct scan *s) { return s->y.ev.type; }
static const char *word(const struct scan *s) { return yaml_plain_word(&s->y); }

static int find_key(struct scan *s, enum profile_key *ret)
{
	struct suggest near = SUGGEST(word(s));
	char q[QUOTE_MAX];

	for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
		if (strcmp(keys[i].name, word(s)) == 0) {
			*ret = (enum profile_key)i;
			return 0;
		}
		suggest_offer(&near, keys[i].name);
	}
	if (near.best != NULL)
		return SAY(s, "unknown key %s: did you mean '%s'?", quote(word(s), q), near.best);
	return SAY(s, "unknown key %s", quote(word(s), q));
}

static int scan_env(struct scan *s)
{
	char q[QUOTE_MAX];
	int r;

	while ((r = next(s)) == 0 && type(s) != YAML_MAPPING_END_EVENT) {
		char *kv = NULL;
		size_t n, m;

		if (type(s) != YAML_SCALAR_EVENT || word(s)[0] == '\0' ||
		    strchr(word(s), '=') != NULL)
			return SAY(s, "env: a name of a variable is expected here");
		n = s->y.ev.data.scalar.length;
		for (uint32_t i = 0; i < s->out->env.n; i++)
			if (strncmp(s->out->env.v[i], word(s), n) == 0 &&
			    s->out->env.v[i][n] == '=')
				return SAY(s, "env: %s is given twice", quote(word(s), q));
		kv = malloc(n + 2);
		if (kv == NULL)
			return SAY(s, "out of memory");
		memcpy(kv, word(s), n);
		kv[n] = '=';
		kv[n + 1] = '\0';
		r = next(s);
		if (r == 0 && type(s) != YAML_SCALAR_EVENT)
			r = SAY(s, "env: the value of %s must be text or a number",
				quote_n(kv, n, q));
		if (r == 0) {
			char *grown = realloc(kv, n + 2 + s->y.ev.data.scalar.length);

			if (grown != NULL) {
				kv = grown;
				m = s->y.ev.data.scalar.length;
				memcpy(kv + n + 1, word(s), m + 1);
				r = strv_add(&s->out->env, kv);
			}
			if (grown == NULL || r < 0)
				r = SAY(s, "out of memory");
		}
		free(kv);
		if (r < 0)
			return r;
	}
	return r;
}

static int scan_list(struct scan *s, const char *name)
{
	int r;

	while ((r = next(s)) == 0 && type(s) != YAML_SEQUENCE_END_EVENT)
		if (type(s) != YAML_SCALAR_EVENT || word(s)[0] == '\0')
			return SAY(s, "%s: a list of words is expected", name);
	return r;
}

/* Nothing (deny-all, an empty list), or a map of rules, whose own form src/egress looks at. */
static int scan_egress(struct scan *s)
{
	int r = 0;

	if (type(s) == YAML_SCALAR_EVENT && strcmp(word(s), "deny-all") == 0)
		return 0;
	if (type(s) == YAML_MAPPING_START_EVENT)
		return yaml_tree_value(&s->y, &s->out->egress);
	if (type(s) == YAML_SEQUENCE_START_EVENT && ((r = next(s)) < 0 || type(s) == YAML_SEQUENCE_END_EVENT))
		return r;
	return yaml_plain_say(&s->y, s->out->line[PROFILE_EGRESS],
			      "egress: deny-all is expected, or a map such as 'rules: [{host: pypi.org, ports: 443}]'");
}

static int scan_value(struct scan *s, enum profile_key k)
{
	const char *name = keys[k].name;
	int r = next(s);

	if (r < 0)
		return r;
	switch (keys[k].shape) {
	case SCALAR:
		if (type(s) != YAML_SCALAR_EVENT)
			return SAY(s, "%s: one value is expected, not a list or a map", name);
		if (word(s)[0] == '\0')
			return SAY(s, "%s: the value is missing", name);
		return 0;
	case MAP:
		if (type(s) != YAML_MAPPING_START_EVENT)
			return SAY(s, "%s: a map of names and values is expected", name);
		return scan_env(s);
	case LIST:
		if (type(s) != YAML_SEQUENCE_START_EVENT)
			return SAY(s, "%s: a list is expected, such as [limits]", name);
		return scan_list(s, name);
	case EGRESS:
		return scan_egress(s);
	}
	return -EINVAL;
}

static int scan_keys(struct scan *s)
{
	int r;

	while ((r = next(s)) == 0 && type(s) != YAML_MAPPING_END_EVENT) {
		enum profile_key k = PROFILE_KEY_COUNT;

		if (type(s) != YAML_SCALAR_EVENT)
			return SAY(s, "a key is expected here");
		r = find_key(s, &k);
		if (r < 0)
			return r;
		if ((s->out->set >> k & 1) != 0)
			return SAY(s, "%s is given twice (first in line %d)", keys[k].name,
				   s->out->line[k]);
		s->out->set |= 1u << k;
		s->out->line[k] = yaml_plain_line(&s->y);
		r = scan_value(s, k);
		if (r < 0)
			return r;
	}
	return r;
}

int profile_scan(const char *file, const char *text, size_t len, struct profile_scan *ret,
		 struct err *e)
{
	struct scan s = {.y = {.file = file, .kind = "profile", .e = e}, .out = ret};
	int r;

	*ret = (struct profile_scan){0};
	r = yaml_plain_open(&s.y, text, len);
	if (r < 0)
		return r;
	r = yaml_plain_begin(&s.y, "version: 1");
	if (r == 0)
		r = scan_keys(&s);
	if (r == 0)
		r = yaml_plain_end(&s.y);
	yaml_plain_done(&s.y);
	if (r < 0) {
		strv_done(&ret->env);
		yaml_tree_free(ret->egress);
		ret->egress = NULL;
	}
	return r;
}
