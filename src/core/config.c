#include "core/config.h"
/*
 * The file becomes a tree first (core/yaml_tree.h), whose keys are then looked up in config_keys.def; each row names the
 * function that reads its value. The file is the operator's own, and read as strictly as a stranger's: what
 * it says decides what a daemon with root's help will start.
 */
#include "base/num.h"
#include "base/quote.h"
#include "base/suggest.h"
#include "base/units.h"
#include "core/yaml_tree.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define LOWER  "abcdefghijklmnopqrstuvwxyz"
#define UPPER  "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define DIGITS "0123456789"

enum { PATH_LEN_MAX = 4095, WORD_LEN_MAX = 255 };

struct load {
	const char *file;
	struct config *c;
	struct err *e;
};

struct key;
typedef int (*key_read)(struct load *l, const struct key *k, const struct yaml_node *n, void *field);
struct key {
	const char *name, *text;
	size_t field;
	key_read read;
};

static int refuse(struct load *l, const struct key *k, const struct yaml_node *n)
{
	char q[QUOTE_MAX];

	if (n->kind != YAML_WORD)
		return yaml_refuse(l->file, n->line, l->e, "%s: %s is expected here", k->name, k->text);
	return yaml_refuse(l->file, n->line, l->e, "%s: %s cannot stand here: %s is expected", k->name,
			   quote(n->text, q), k->text);
}

/* ---- words ---- */

static int keep(struct load *l, const struct yaml_node *n, void *field)
{
	char **dst = (char **)field;

	free(*dst);
	*dst = strdup(n->text);
	return *dst == NULL ? err_no_memory(l->e) : 0;
}

static bool made_of(const char *s, size_t max, const char *of)
{
	size_t n = strlen(s);

	return n > 0 && n <= max && s[0] != '-' && s[0] != '.' && strspn(s, of) == n;
}

static bool path_ok(const char *s)
{
	return s[0] == '/' && s[1] != '\0' && strlen(s) <= PATH_LEN_MAX && strchr(s, '\n') == NULL;
}

static int read_version(struct load *l, const struct key *k, const struct yaml_node *n, void *field)
{
	return n->kind == YAML_WORD && strcmp(n->text, "1") == 0 ? keep(l, n, field) : refuse(l, k, n);
}

static int read_path(struct load *l, const struct key *k, const struct yaml_node *n, void *field)
{
	return n->kind == YAML_WORD && path_ok(n->text) ? keep(l, n, field) : refuse(l, k, n);
}

/* ADDRESS:PORT, [ADDRESS]:PORT, unix:/PATH; whoever binds it looks at the address. */
static bool listen_ok(const char *s)
{
	const char *colon = strrchr(s, ':');
	uint64_t port = 0;

	if (strncmp(s, "unix:", 5) == 0)
		return path_ok(s + 5);
	if (colon == NULL || colon == s || strlen(s) > WORD_LEN_MAX || units_count(colon + 1, UINT16_MAX, &port, NULL) < 0)
		return false;
	if (s[0] == '[')
		return colon[-1] == ']' && colon - s > 3 &&
		       strspn(s + 1, DIGITS "abcdefABCDEF:.") == (size_t)(colon - s) - 2;
	return strspn(s, DIGITS ".") == (size_t)(colon - s);
}

static int read_listen(struct load *l, const struct key *k, const struct yaml_node *n, void *field)
{
	return n->kind == YAML_WORD && listen_ok(n->text) ? keep(l, n, field) : refuse(l, k, n);
}

static int read_domain(struct load *l, const struct key *k, const struct yaml_node *n, void *field)
{
	bool good = n->kind == YAML_WORD && made_of(n->text, 190, LOWER DIGITS ".-") && strstr(n->text, "..") == NULL;

	return good ? keep(l, n, field) : refuse(l, k, n);
}

static int read_user(struct load *l, const struct key *k, const struct yaml_node *n, void *field)
{
	return n->kind == YAML_WORD && made_of(n->text, 32, LOWER UPPER DIGITS "_.-") ? keep(l, n, field) : refuse(l, k, n);
}

static int read_image(struct load *l, const struct key *k, const struct yaml_node *n, void *field)
{
	bool good = n->kind == YAML_WORD && (path_ok(n->text) || made_of(n->text, WORD_LEN_MAX, LOWER UPPER DIGITS "._-/:"));

	return good ? keep(l, n, field) : refuse(l, k, n);
}

static int read_flag(struct load *l, const struct key *k, const struct yaml_node *n, void *field)
{
	if (n->kind != YAML_WORD || n->quoted || (strcmp(n->text, "true") != 0 && strcmp(n->text, "false") != 0))
		return refuse(l, k, n);
	*(bool *)field = n->text[0] == 't';
	return 0;
}

static int read_egress(struct load *l, const struct key *k, const struct yaml_node *n, void *field)
{
	if (n->kind != YAML_WORD || (strcmp(n->text, "narrow") != 0 && strcmp(n->text, "any") != 0))
		return refuse(l, k, n);
	*(bool *)field = n->text[0] == 'a';
	return 0;
}

/* ---- numbers ---- */

static int read_count(struct load *l, const struct key *k, const struct yaml_node *n, uint64_t min, uint64_t max,
		      void *field)
{
	uint64_t v = 0;

	if (n->kind != YAML_WORD || units_count(n->text, max, &v, NULL) < 0 || v < min)
		return refuse(l, k, n);
	*(uint32_t *)field = (uint32_t)v;
	return 0;
}

static int read_sandboxes(struct load *l, const struct key *k, const struct yaml_node *n, void *field)
{
	return read_count(l, k, n, 1, CONFIG_SANDBOXES_MAX, field);
}

static int read_pool(struct load *l, const struct key *k, const struct yaml_node *n, void *field)
{
	return read_count(l, k, n, 0, CONFIG_POOL_MAX, field);
}

static int read_timeout(struct load *l, const struct key *k, const struct yaml_node *n, void *field)
{
	uint64_t v = 0;

	if (n->kind != YAML_WORD || units_duration(n->text, &v, NULL) < 0 || v < 1000 ||
	    v > SPEC_TIMEOUT_MAX_MS)
		return refuse(l, k, n);
	*(uint64_t *)field = v;
	return 0;
}

/* ---- maps ---- */

/* Each key of a map by its row. base: the struct the rows' fields are of. */
static int read_keys(struct load *l, const struct key *rows, size_t count, const struct yaml_node *map, void *base)
{
	for (const struct yaml_node *n = map->child; n != NULL; n = n->next) {
		struct suggest near = SUGGEST(n->key);
		const struct key *k = NULL;
		char q[QUOTE_MAX];
		int r;

		for (size_t i = 0; i < count && k == NULL; i++) {
			suggest_offer(&near, rows[i].name);
			k = strcmp(rows[i].name, n->key) == 0 ? &rows[i] : NULL;
		}
		if (k == NULL)
			return yaml_refuse(l->file, n->line, l->e, "unknown key %s%s%s%s", quote(n->key, q),
					   near.best != NULL ? ": did you mean '" : "", near.best != NULL ? near.best : "",
					   near.best != NULL ? "'?" : "");
		r = k->read(l, k, n, (char *)base + k->field);
		if (r < 0)
			return r;
	}
	return 0;
}

static const struct key tls_keys[] = {
#define TLS(id, name, field, read, text) {name, text, offsetof(struct config, field), read_##read},
#define TOP(...)
#define TEMPLATE(...)
#include "core/config_keys.def"
};

static int read_tls(struct load *l, const struct key *k, const struct yaml_node *n, void *field)
{
	int r;

	(void)field;
	if (n->kind != YAML_MAP)
		return yaml_refuse(l->file, n->line, l->e, "%s: %s is expected here", k->name, k->text);
	r = read_keys(l, tls_keys, ARRAY_LEN(tls_keys), n, l->c);
	if (r == 0 && (l->c->tls_cert == NULL || l->c->tls_key == NULL))
		r = yaml_refuse(l->file, n->line, l->e, "tls: both cert and key are needed");
	return r;
}

static bool name_ok(const char *s) { return made_of(s, CONFIG_NAME_MAX, LOWER UPPER DIGITS "._-/") && s[0] != '/'; }

static int read_aliases(struct load *l, const struct key *k, const struct yaml_node *n, void *field)
{
	struct strv *v = (struct strv *)field;

	if (n->kind != YAML_LIST)
		return yaml_refuse(l->file, n->line, l->e, "%s: %s is expected here", k->name, k->text);
	for (const struct yaml_node *w = n->child; w != NULL; w = w->next) {
		if (w->kind != YAML_WORD || !name_ok(w->text))
			return refuse(l, k, w);
		if (v->n == CONFIG_ALIASES_MAX)
			return yaml_refuse(l->file, w->line, l->e, "alias: more than %d", CONFIG_ALIASES_MAX);
		if (config_template(l->c, w->text) != NULL)
			return yaml_refuse(l->file, w->line, l->e, "alias: '%s' names a template already", w->text);
		if (strv_add(v, w->text) < 0)
			return err_no_memory(l->e);
	}
	return 0;
}

static const struct key template_keys[] = {
#define TEMPLATE(id, name, field, read, text) {name, text, offsetof(struct config_template, field), read_##read},
#define TOP(...)
#define TLS(...)
#include "core/config_keys.def"
};

static int add_template(struct config *c, const char *name, struct config_template **ret, struct err *e)
{
	struct config_template *t = &c->templates[c->templates_n];

	*t = (struct config_template){.name = strdup(name)};
	if (t->name == NULL)
		return err_no_memory(e);
	c->templates_n++;
	*ret = t;
	return 0;
}

static int read_template(struct load *l, const struct yaml_node *n)
{
	struct config_template *t = NULL;
	char q[QUOTE_MAX];
	int r;

	if (!name_ok(n->key))
		return yaml_refuse(l->file, n->line, l->e, "templates: %s is no name: at most %d letters, digits, . _ - /",
				   quote(n->key, q), CONFIG_NAME_MAX);
	if (l->c->templates_n == CONFIG_TEMPLATES_MAX)
		return yaml_refuse(l->file, n->line, l->e, "templates: more than %d", CONFIG_TEMPLATES_MAX);
	if (config_template(l->c, n->key) != NULL)
		return yaml_refuse(l->file, n->line, l->e, "templates: '%s' is an alias already", n->key);
	if (n->kind != YAML_MAP)
		return yaml_refuse(l->file, n->line, l->e, "templates: %s: a map is expected, such as '{profile: /PATH}'",
				   n->key);
	r = add_template(l->c, n->key, &t, l->e);
	return r < 0 ? r : read_keys(l, template_keys, ARRAY_LEN(template_keys), n, t);
}

static int read_templates(struct load *l, const struct key *k, const struct yaml_node *n, void *field)
{
	int r = 0;

	(void)field;
	if (n->kind != YAML_MAP || n->child == NULL)
		return yaml_refuse(l->file, n->line, l->e, "%s: %s is expected here", k->name, k->text);
	for (n = n->child; r == 0 && n != NULL; n = n->next)
		r = read_template(l, n);
	return r;
}

static const struct key top_keys[] = {
#define TOP(id, name, field, read, text) {name, text, offsetof(struct config, field), read_##read},
#define TLS(...)
#define TEMPLATE(...)
#include "core/config_keys.def"
};

/* ---- the whole ---- */

static int put(char **dst, const char *text, struct err *e)
{
	*dst = strdup(text);
	return *dst == NULL ? err_no_memory(e) : 0;
}

static int defaults(struct config *c, const char *state, const char *spawn, struct err *e)
{
	int r;

	*c = (struct config){.max_sandboxes = 256, .default_timeout_ms = 300000, .max_timeout_ms = 86400000};
	c->templates = calloc(CONFIG_TEMPLATES_MAX, sizeof(*c->templates));
	if (c->templates == NULL)
		return err_no_memory(e);
	r = put(&c->listen, "127.0.0.1:7080", e);
	if (r == 0)
		r = put(&c->domain, "localhost", e);
	if (r == 0)
		r = put(&c->state, state, e);
	return r == 0 ? put(&c->spawn, spawn, e) : r;
}

static int check_all(struct load *l, const struct yaml_node *root)
{
	const struct config *c = l->c;

	if (c->version == NULL)
		return yaml_refuse(l->file, 1, l->e, "version is missing: the file needs 'version: 1'");
	if (c->templates_n == 0)
		return yaml_refuse(l->file, 1, l->e, "templates is missing: at least 'templates: {base: {}}'");
	if (c->default_timeout_ms > c->max_timeout_ms) {
		const struct yaml_node *n = yaml_get(root, "default_timeout");

		n = n != NULL ? n : yaml_get(root, "max_timeout");
		return yaml_refuse(l->file, n != NULL ? n->line : 1, l->e, "default_timeout is longer than max_timeout");
	}
	return 0;
}

int config_load(const char *file, const char *text, size_t len, struct config *ret, struct err *e)
{
	struct config c;
	struct load l = {.file = file, .c = &c, .e = e};
	struct yaml_node *root = NULL;
	int r;

	if (len > CONFIG_MAX)
		return err_set(e, ERR_INVALID, EFBIG, "%.100s: larger than %d KiB", file, CONFIG_MAX / 1024);
	r = yaml_tree(file, "configuration", text, len, &root, e);
	if (r < 0)
		return r;
	r = defaults(&c, "/var/lib/brigd", "/run/brig/spawn.sock", e);
	if (r == 0)
		r = read_keys(&l, top_keys, ARRAY_LEN(top_keys), root, &c);
	if (r == 0)
		r = check_all(&l, root);
	yaml_tree_free(root);
	if (r < 0)
		config_done(&c);
	else
		*ret = c;
	return r;
}

int config_dev(const char *state, const char *spawn, struct config *ret, struct err *e)
{
	static const char *const names[] = {"base", "code-interpreter-v1"};
	struct config c;
	int r = defaults(&c, state, spawn, e);

	for (size_t i = 0; r == 0 && i < ARRAY_LEN(names); i++) {
		struct config_template *t = NULL;

		r = add_template(&c, names[i], &t, e);
		if (r < 0)
			break;
		t->any_egress = t->image_or_host = true;
		t->code = i == 1;
		r = put(&t->image, names[i], e);
	}
	if (r < 0)
		config_done(&c);
	else
		*ret = c;
	return r;
}

void config_done(struct config *c)
{
	for (uint32_t i = 0; i < c->templates_n; i++) {
		struct config_template *t = &c->templates[i];

		free(t->name);
		free(t->profile);
		free(t->image);
		strv_done(&t->alias);
	}
	free(c->templates);
	free(c->version);
	free(c->listen);
	free(c->tls_cert);
	free(c->tls_key);
	free(c->domain);
	free(c->state);
	free(c->spawn);
	free(c->user);
	*c = (struct config){.version = NULL};
}

const struct config_template *config_template(const struct config *c, const char *name)
{
	for (uint32_t i = 0; i < c->templates_n; i++) {
		const struct config_template *t = &c->templates[i];

		if (strcmp(t->name, name) == 0)
			return t;
		for (uint32_t k = 0; k < t->alias.n; k++)
			if (strcmp(t->alias.v[k], name) == 0)
				return t;
	}
	return NULL;
}
