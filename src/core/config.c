#include "core/config_priv.h"
/*
 * The file becomes a tree first (core/yaml_tree.h), whose keys are then looked up in config_keys.def; each row names the
 * function that reads its value. The file is the operator's own, and read as strictly as a stranger's: what
 * it says decides what a daemon with root's help will start.
 */
#include "base/num.h"
#include "base/quote.h"
#include "base/suggest.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

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
#define TLS(id, name, field, read, text) {name, text, offsetof(struct config, field), config_read_##read},
#define TOP(...)
#define TENANT(...)
#define TEMPLATE(...)
#include "core/config_keys.def"
};

static int config_read_tls(struct load *l, const struct key *k, const struct yaml_node *n, void *field)
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

static bool name_ok(const char *s) { return config_made_of(s, CONFIG_NAME_MAX, LOWER UPPER DIGITS "._-/") && s[0] != '/'; }

static int config_read_aliases(struct load *l, const struct key *k, const struct yaml_node *n, void *field)
{
	struct strv *v = (struct strv *)field;

	if (n->kind != YAML_LIST)
		return yaml_refuse(l->file, n->line, l->e, "%s: %s is expected here", k->name, k->text);
	for (const struct yaml_node *w = n->child; w != NULL; w = w->next) {
		if (w->kind != YAML_WORD || !name_ok(w->text))
			return config_refuse(l, k, w);
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
#define TEMPLATE(id, name, field, read, text) {name, text, offsetof(struct config_template, field), config_read_##read},
#define TOP(...)
#define TLS(...)
#define TENANT(...)
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

static int config_read_templates(struct load *l, const struct key *k, const struct yaml_node *n, void *field)
{
	int r = 0;

	(void)field;
	if (n->kind != YAML_MAP || n->child == NULL)
		return yaml_refuse(l->file, n->line, l->e, "%s: %s is expected here", k->name, k->text);
	for (n = n->child; r == 0 && n != NULL; n = n->next)
		r = read_template(l, n);
	return r;
}

static const struct key tenant_keys[] = {
#define TENANT(id, name, field, read, text) {name, text, offsetof(struct config_tenant, field), config_read_##read},
#define TOP(...)
#define TLS(...)
#define TEMPLATE(...)
#include "core/config_keys.def"
};

static int read_tenant(struct load *l, const struct yaml_node *n)
{
	struct config_tenant *t = &l->c->tenants[l->c->tenants_n];
	bool all = strcmp(n->key, "*") == 0;
	char q[QUOTE_MAX];

	if (!all && (strlen(n->key) >= CONFIG_NAME_MAX || strspn(n->key, LOWER UPPER DIGITS "._-") != strlen(n->key)))
		return yaml_refuse(l->file, n->line, l->e, "tenants: %s is no tenant: up to 63 letters, digits, '.', '_' and '-', or '*'",
				   quote(n->key, q));
	if (l->c->tenants_n == CONFIG_TENANTS_MAX)
		return yaml_refuse(l->file, n->line, l->e, "tenants: more than %d", CONFIG_TENANTS_MAX);
	if (n->kind != YAML_MAP || n->child == NULL)
		return yaml_refuse(l->file, n->line, l->e, "tenants: %s: a map is expected, such as '{max_sandboxes: 10}'", n->key);
	*t = (struct config_tenant){.name = strdup(n->key)};
	if (t->name == NULL)
		return err_no_memory(l->e);
	l->c->tenants_n++;
	return read_keys(l, tenant_keys, ARRAY_LEN(tenant_keys), n, t);
}

static int config_read_tenants(struct load *l, const struct key *k, const struct yaml_node *n, void *field)
{
	int r = 0;

	if (n->kind != YAML_MAP || n->child == NULL)
		return yaml_refuse(l->file, n->line, l->e, "%s: %s is expected here", k->name, k->text);
	l->c->tenants = calloc(CONFIG_TENANTS_MAX, sizeof(*l->c->tenants));
	(void)field; /* the same */
	if (l->c->tenants == NULL)
		return err_no_memory(l->e);
	for (n = n->child; r == 0 && n != NULL; n = n->next)
		r = read_tenant(l, n);
	return r;
}

static const struct key top_keys[] = {
#define TOP(id, name, field, read, text) {name, text, offsetof(struct config, field), config_read_##read},
#define TLS(...)
#define TENANT(...)
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
