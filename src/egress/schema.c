#include "egress/priv.h"
/*
 * The schema of egress rules as a table: which keys a map may have, and what their values look like. What more than one
 * key decides together is rule.c's.
 */
#include "base/num.h"
#include "base/quote.h"
#include "base/suggest.h"
#include "base/units.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum type { TYPE_NUM, TYPE_SIZE, TYPE_BOOL, TYPE_WORD, TYPE_TEXT, TYPE_HOST, TYPE_LIST, TYPE_PORTS, TYPE_MAP, TYPE_MAPS };

static const struct key {
	enum egress_section section;
	const char *name;
	enum type type;
	uint64_t min, max;
	const char *words;
	enum egress_section sub;
	const char *wire;
} keys[] = {
#define KEY(section, name, type, min, max, words, sub, wire, text)                                                    \
	{SECTION_##section, name, TYPE_##type, min, max, words, SECTION_##sub, wire},
#include "egress/keys.def"
#undef KEY
};

#define SAY(l, n, ...) yaml_refuse((l)->file, (n)->line, (l)->e, __VA_ARGS__)

static const struct key *find_key(struct egress_load *l, enum egress_section s, const struct yaml_node *n)
{
	struct suggest near = SUGGEST(n->key);
	char q[QUOTE_MAX];

	for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
		if (keys[i].section != s)
			continue;
		if (strcmp(keys[i].name, n->key) == 0)
			return &keys[i];
		suggest_offer(&near, keys[i].name);
	}
	if (near.best != NULL)
		(void)SAY(l, n, "unknown key %s: did you mean '%s'?", quote(n->key, q), near.best);
	else
		(void)SAY(l, n, "unknown key %s; brig-egress(5) lists them", quote(n->key, q));
	return NULL;
}

static bool in_words(const char *words, const char *w)
{
	size_t n = strlen(w);

	for (const char *p = words; *p != '\0'; p += strcspn(p, " "), p += *p == ' ')
		if (strcspn(p, " ") == n && n > 0 && memcmp(p, w, n) == 0)
			return true;
	return false;
}

static bool printable(const char *s, bool any_script)
{
	for (; *s != '\0'; s++) {
		unsigned char c = (unsigned char)*s;

		if (c < 0x20 || c == 0x7f || (c >= 0x80 && !any_script))
			return false;
	}
	return true;
}

static int check_number(struct egress_load *l, const struct key *k, const struct yaml_node *n)
{
	char q[QUOTE_MAX];
	uint64_t v = 0;
	int r;

	if (n->quoted)
		return SAY(l, n, "%s: a number without quotation marks is expected", k->name);
	if (k->type == TYPE_SIZE) {
		r = units_size(n->text, &v, l->e);
		if (r < 0)
			return err_wrap(l->e, r, "%.100s:%d: %s: %s", l->file, n->line, k->name, quote(n->text, q));
		return v >= k->min ? 0 : SAY(l, n, "%s: must be at least %" PRIu64, k->name, k->min);
	}
	r = units_count(n->text, UINT64_MAX, &v, NULL);
	if (r < 0 || v < k->min || v > k->max)
		return SAY(l, n, "%s: %s: a number from %" PRIu64 " to %" PRIu64 " is expected", k->name, quote(n->text, q),
			   k->min, k->max);
	return 0;
}

static int check_word(struct egress_load *l, const struct key *k, const struct yaml_node *n)
{
	char q[QUOTE_MAX];

	switch (k->type) {
	case TYPE_NUM:
	case TYPE_SIZE:
		return check_number(l, k, n);
	case TYPE_BOOL:
		if (n->quoted || (strcmp(n->text, "true") != 0 && strcmp(n->text, "false") != 0))
			return SAY(l, n, "%s: true or false is expected", k->name);
		return 0;
	case TYPE_WORD:
		if (!in_words(k->words, n->text))
			return SAY(l, n, "%s: %s: one of these is expected: %s", k->name, quote(n->text, q), k->words);
		return 0;
	case TYPE_TEXT:
	case TYPE_HOST:
	case TYPE_LIST:
	case TYPE_PORTS:
	case TYPE_MAP:
	case TYPE_MAPS:
		break;
	}
	if (n->text[0] == '\0')
		return SAY(l, n, "%s: the value is missing", k->name);
	if (!printable(n->text, k->type == TYPE_HOST))
		return SAY(l, n, "%s: only printable ASCII is expected", k->name);
	if (k->max != 0 && strlen(n->text) > k->max)
		return SAY(l, n, "%s: longer than %" PRIu64 " bytes", k->name, k->max);
	return 0;
}

static int check_list(struct egress_load *l, const struct key *k, const struct yaml_node *n)
{
	int r = 0;

	if (n->kind == YAML_WORD && k->type == TYPE_PORTS)
		return check_word(l, k, n);
	if (n->kind != YAML_LIST)
		return SAY(l, n, "%s: a list is expected, such as [%s]", k->name,
			   k->type == TYPE_PORTS ? "443, 8000-8099" : "a, b");
	if (n->child == NULL && k->type == TYPE_PORTS)
		return SAY(l, n, "%s: at least one is needed", k->name);
	for (const struct yaml_node *c = n->child; r == 0 && c != NULL; c = c->next) {
		if (c->kind != YAML_WORD)
			return SAY(l, c, "%s: a list of single values is expected", k->name);
		r = check_word(l, k, c);
		if (r == 0 && strlen(c->text) > 512)
			return SAY(l, c, "%s: longer than 512 bytes", k->name);
	}
	return r;
}

static int check_value(struct egress_load *l, const struct key *k, const struct yaml_node *n)
{
	int r = 0;

	switch (k->type) {
	case TYPE_MAP:
		return n->kind == YAML_MAP ? schema_check(l, k->sub, n)
					   : SAY(l, n, "%s: a map of keys and values is expected", k->name);
	case TYPE_MAPS:
		if (n->kind != YAML_LIST)
			return SAY(l, n, "%s: a list of maps is expected", k->name);
		for (const struct yaml_node *c = n->child; r == 0 && c != NULL; c = c->next)
			r = c->kind == YAML_MAP ? schema_check(l, k->sub, c)
						: SAY(l, c, "%s: a map is expected, such as {host: pypi.org, ports: 443}", k->name);
		return r;
	case TYPE_LIST:
	case TYPE_PORTS:
		return check_list(l, k, n);
	case TYPE_NUM:
	case TYPE_SIZE:
	case TYPE_BOOL:
	case TYPE_WORD:
	case TYPE_TEXT:
	case TYPE_HOST:
		return n->kind == YAML_WORD ? check_word(l, k, n)
					    : SAY(l, n, "%s: one value is expected, not a list or a map", k->name);
	}
	return -EINVAL;
}

int schema_check(struct egress_load *l, enum egress_section s, const struct yaml_node *map)
{
	for (const struct yaml_node *n = map->child; n != NULL; n = n->next) {
		const struct key *k = find_key(l, s, n);
		int r = k == NULL ? -EINVAL : check_value(l, k, n);

		if (r < 0)
			return r;
	}
	return 0;
}

/* ---- lines ---- */

static int note_line(struct egress_load *l, int line)
{
	struct egress *g = l->g;

	if (g->from_n == g->from_cap) {
		uint32_t cap = g->from_cap == 0 ? 64 : g->from_cap * 2;
		struct egress_from *grown = realloc(g->from, cap * sizeof(*grown));

		if (grown == NULL)
			return err_no_memory(l->e);
		g->from = grown;
		g->from_cap = cap;
	}
	g->from[g->from_n++] = (struct egress_from){.file = l->file, .line = line};
	return 0;
}

int emit(struct egress_load *l, int line, const char *fmt, ...)
{
	char *text = NULL;
	va_list ap;
	int n, r;

	va_start(ap, fmt);
	n = vasprintf(&text, fmt, ap);
	va_end(ap);
	if (n < 0)
		return err_no_memory(l->e);
	r = note_line(l, line);
	if (r == 0 && (buf_put(&l->g->text, text, (size_t)n) < 0 || buf_put(&l->g->text, "\n", 1) < 0))
		r = err_set(l->e, ERR_LIMITED, E2BIG, "egress: more than %zu bytes of rules", l->g->text.max);
	free(text);
	return r;
}

static int emit_key(struct egress_load *l, const struct key *k, const struct yaml_node *n)
{
	uint64_t v = 0;
	int r = 0;

	switch (k->type) {
	case TYPE_SIZE:
		r = units_size(n->text, &v, l->e);
		return r < 0 ? r : emit(l, n->line, "%s %" PRIu64, k->wire, v);
	case TYPE_BOOL:
		return emit(l, n->line, "%s %s", k->wire, strcmp(n->text, "true") == 0 ? "yes" : "no");
	case TYPE_LIST:
		for (const struct yaml_node *c = n->child; r == 0 && c != NULL; c = c->next)
			r = emit(l, c->line, "%s %s", k->wire, c->text);
		return r;
	case TYPE_NUM:
	case TYPE_WORD:
	case TYPE_TEXT:
	case TYPE_HOST:
	case TYPE_PORTS:
	case TYPE_MAP:
	case TYPE_MAPS:
		break;
	}
	return emit(l, n->line, "%s %s", k->wire, n->text);
}

int emit_section(struct egress_load *l, enum egress_section s, const struct yaml_node *map)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_LEN(keys); i++) {
		const struct yaml_node *n = keys[i].section == s && keys[i].wire[0] != '\0' ? yaml_get(map, keys[i].name) : NULL;

		if (n != NULL)
			r = emit_key(l, &keys[i], n);
	}
	return r;
}
