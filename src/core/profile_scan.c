#include "core/profile_scan.h"
/*
 * The form of a profile, by libyaml's events.
 *
 * The schema-driven loader that follows takes values but neither reports repeated keys nor takes a
 * free map, and it would follow aliases. So this pass looks at every event first and refuses whatever
 * is not plain: aliases, anchors and tags (an alias bomb grows a few lines into gigabytes), a second
 * document, unknown or repeated keys, a value of another shape, NUL bytes. Nesting is at most two
 * deep because any other start event is refused at once. The text is hostile; it was cut to
 * PROFILE_MAX bytes by the caller.
 */
#include "base/num.h"
#include "base/quote.h"
#include "base/suggest.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

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
	const char *file;
	yaml_parser_t parser;
	yaml_event_t ev;
	bool have_ev;
	struct profile_scan *out;
	struct err *e;
};

static int line_of(const struct scan *s) { return (int)s->ev.start_mark.line + 1; }

#define SAY(s, ...) say_at((s), line_of(s), __VA_ARGS__)
static int say_at(struct scan *s, int line, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
static int say_at(struct scan *s, int line, const char *fmt, ...)
{
	char text[200];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	return err_set(s->e, ERR_INVALID, EINVAL, "%.100s:%d: %s", s->file, line, text);
}

static int refuse_extras(struct scan *s, const yaml_char_t *anchor, const yaml_char_t *tag)
{
	if (anchor != NULL)
		return SAY(s, "anchors ('&') are not allowed in a profile");
	if (tag != NULL)
		return SAY(s, "tags ('!') are not allowed in a profile");
	return 0;
}

/* The next event into s->ev. */
static int next(struct scan *s)
{
	if (s->have_ev)
		yaml_event_delete(&s->ev);
	s->have_ev = false;
	if (yaml_parser_parse(&s->parser, &s->ev) == 0) {
		const char *why = s->parser.problem != NULL ? s->parser.problem : "out of memory";
		size_t line = s->parser.problem_mark.line;

		return say_at(s, (int)line + 1, "not YAML: %s", why);
	}
	s->have_ev = true;
	if (s->ev.type == YAML_ALIAS_EVENT)
		return SAY(s, "aliases ('*') are not allowed in a profile");
	if (s->ev.type == YAML_MAPPING_START_EVENT)
		return refuse_extras(s, s->ev.data.mapping_start.anchor,
				     s->ev.data.mapping_start.tag);
	if (s->ev.type == YAML_SEQUENCE_START_EVENT)
		return refuse_extras(s, s->ev.data.sequence_start.anchor,
				     s->ev.data.sequence_start.tag);
	if (s->ev.type != YAML_SCALAR_EVENT)
		return 0;
	if (strlen((const char *)s->ev.data.scalar.value) != s->ev.data.scalar.length)
		return SAY(s, "a value holds a NUL byte");
	return refuse_extras(s, s->ev.data.scalar.anchor, s->ev.data.scalar.tag);
}

static const char *word(const struct scan *s) { return (const char *)s->ev.data.scalar.value; }

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

	while ((r = next(s)) == 0 && s->ev.type != YAML_MAPPING_END_EVENT) {
		char *kv = NULL;
		size_t n, m;

		if (s->ev.type != YAML_SCALAR_EVENT || word(s)[0] == '\0' ||
		    strchr(word(s), '=') != NULL)
			return SAY(s, "env: a name of a variable is expected here");
		n = s->ev.data.scalar.length;
		for (uint32_t i = 0; i < s->out->env.n; i++)
			if (strncmp(s->out->env.v[i], word(s), n) == 0 &&
			    s->out->env.v[i][n] == '=')
				return SAY(s, "env: %s is given twice", quote(word(s), q));
		kv = malloc(n + 2);
		if (kv == NULL)
			return say_at(s, line_of(s), "out of memory");
		memcpy(kv, word(s), n);
		kv[n] = '=';
		kv[n + 1] = '\0';
		r = next(s);
		if (r == 0 && s->ev.type != YAML_SCALAR_EVENT)
			r = SAY(s, "env: the value of %s must be text or a number",
				quote_n(kv, n, q));
		if (r == 0) {
			char *grown = realloc(kv, n + 2 + s->ev.data.scalar.length);

			if (grown != NULL) {
				kv = grown;
				m = s->ev.data.scalar.length;
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

	while ((r = next(s)) == 0 && s->ev.type != YAML_SEQUENCE_END_EVENT)
		if (s->ev.type != YAML_SCALAR_EVENT || word(s)[0] == '\0')
			return SAY(s, "%s: a list of words is expected", name);
	return r;
}

/* Whatever is not "nothing leaves" would be a promise this version cannot keep. */
static int scan_egress(struct scan *s)
{
	if (s->ev.type == YAML_SCALAR_EVENT && strcmp(word(s), "deny-all") == 0)
		return 0;
	if (s->ev.type == YAML_SEQUENCE_START_EVENT) {
		int r = next(s);

		if (r < 0 || s->ev.type == YAML_SEQUENCE_END_EVENT)
			return r;
	}
	return say_at(s, s->out->line[PROFILE_EGRESS], "egress: the egress gate is not part of this version; only [] "
		      "or deny-all (nothing leaves the sandbox) is accepted");
}

static int scan_value(struct scan *s, enum profile_key k)
{
	const char *name = keys[k].name;
	int r = next(s);

	if (r < 0)
		return r;
	switch (keys[k].shape) {
	case SCALAR:
		if (s->ev.type != YAML_SCALAR_EVENT)
			return SAY(s, "%s: one value is expected, not a list or a map", name);
		if (word(s)[0] == '\0')
			return SAY(s, "%s: the value is missing", name);
		return 0;
	case MAP:
		if (s->ev.type != YAML_MAPPING_START_EVENT)
			return SAY(s, "%s: a map of names and values is expected", name);
		return scan_env(s);
	case LIST:
		if (s->ev.type != YAML_SEQUENCE_START_EVENT)
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

	while ((r = next(s)) == 0 && s->ev.type != YAML_MAPPING_END_EVENT) {
		enum profile_key k = PROFILE_KEY_COUNT;

		if (s->ev.type != YAML_SCALAR_EVENT)
			return SAY(s, "a key is expected here");
		r = find_key(s, &k);
		if (r < 0)
			return r;
		if ((s->out->set >> k & 1) != 0)
			return SAY(s, "%s is given twice (first in line %d)", keys[k].name,
				   s->out->line[k]);
		s->out->set |= 1u << k;
		s->out->line[k] = line_of(s);
		r = scan_value(s, k);
		if (r < 0)
			return r;
	}
	return r;
}

static int scan_stream(struct scan *s)
{
	int r = next(s); /* stream start */

	if (r == 0)
		r = next(s);
	if (r < 0)
		return r;
	if (s->ev.type != YAML_DOCUMENT_START_EVENT)
		return say_at(s, 1, "the file is empty: it needs at least 'version: 1'");
	r = next(s);
	if (r < 0)
		return r;
	if (s->ev.type != YAML_MAPPING_START_EVENT)
		return SAY(s, "a map of keys and values is expected, such as 'version: 1'");
	r = scan_keys(s);
	if (r == 0)
		r = next(s); /* document end */
	if (r == 0)
		r = next(s);
	if (r == 0 && s->ev.type != YAML_STREAM_END_EVENT)
		return SAY(s, "a profile is one document: a second one begins here");
	return r;
}

int profile_scan(const char *file, const char *text, size_t len, struct profile_scan *ret,
		 struct err *e)
{
	struct scan s = {.file = file, .out = ret, .e = e};
	int r;

	*ret = (struct profile_scan){0};
	if (yaml_parser_initialize(&s.parser) == 0)
		return err_set(e, ERR_INTERNAL, ENOMEM, "%.100s: out of memory", file);
	yaml_parser_set_encoding(&s.parser, YAML_UTF8_ENCODING);
	yaml_parser_set_input_string(&s.parser, (const unsigned char *)text, len);
	r = scan_stream(&s);
	if (s.have_ev)
		yaml_event_delete(&s.ev);
	yaml_parser_delete(&s.parser);
	if (r < 0)
		strv_done(&ret->env);
	return r;
}
