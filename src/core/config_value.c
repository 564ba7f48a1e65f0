#include "core/config_priv.h"

#include "base/quote.h"
#include "base/units.h"

#include <stdlib.h>
#include <string.h>

/* Single values: words, then numbers. One strict reading each. */

enum { PATH_LEN_MAX = 4095, WORD_LEN_MAX = 255 };

int config_refuse(struct load *l, const struct key *k, const struct yaml_node *n)
{
	char q[QUOTE_MAX];

	if (n->kind != YAML_WORD)
		return yaml_refuse(l->file, n->line, l->e, "%s: %s is expected here", k->name, k->text);
	return yaml_refuse(l->file, n->line, l->e, "%s: %s cannot stand here: %s is expected", k->name,
			   quote(n->text, q), k->text);
}

static int keep(struct load *l, const struct yaml_node *n, void *field)
{
	char **dst = (char **)field;

	free(*dst);
	*dst = strdup(n->text);
	return *dst == NULL ? err_no_memory(l->e) : 0;
}

bool config_made_of(const char *s, size_t max, const char *of)
{
	size_t n = strlen(s);

	return n > 0 && n <= max && s[0] != '-' && s[0] != '.' && strspn(s, of) == n;
}

static bool path_ok(const char *s)
{
	return s[0] == '/' && s[1] != '\0' && strlen(s) <= PATH_LEN_MAX && strchr(s, '\n') == NULL;
}

int config_read_version(struct load *l, const struct key *k, const struct yaml_node *n, void *field)
{
	return n->kind == YAML_WORD && strcmp(n->text, "1") == 0 ? keep(l, n, field) : config_refuse(l, k, n);
}

int config_read_path(struct load *l, const struct key *k, const struct yaml_node *n, void *field)
{
	return n->kind == YAML_WORD && path_ok(n->text) ? keep(l, n, field) : config_refuse(l, k, n);
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

int config_read_listen(struct load *l, const struct key *k, const struct yaml_node *n, void *field)
{
	return n->kind == YAML_WORD && listen_ok(n->text) ? keep(l, n, field) : config_refuse(l, k, n);
}

int config_read_domain(struct load *l, const struct key *k, const struct yaml_node *n, void *field)
{
	bool good = n->kind == YAML_WORD && config_made_of(n->text, 190, LOWER DIGITS ".-") && strstr(n->text, "..") == NULL;

	return good ? keep(l, n, field) : config_refuse(l, k, n);
}

int config_read_user(struct load *l, const struct key *k, const struct yaml_node *n, void *field)
{
	return n->kind == YAML_WORD && config_made_of(n->text, 32, LOWER UPPER DIGITS "_.-") ? keep(l, n, field) : config_refuse(l, k, n);
}

int config_read_image(struct load *l, const struct key *k, const struct yaml_node *n, void *field)
{
	bool good = n->kind == YAML_WORD && (path_ok(n->text) || config_made_of(n->text, WORD_LEN_MAX, LOWER UPPER DIGITS "._-/:"));

	return good ? keep(l, n, field) : config_refuse(l, k, n);
}

int config_read_flag(struct load *l, const struct key *k, const struct yaml_node *n, void *field)
{
	if (n->kind != YAML_WORD || n->quoted || (strcmp(n->text, "true") != 0 && strcmp(n->text, "false") != 0))
		return config_refuse(l, k, n);
	*(bool *)field = n->text[0] == 't';
	return 0;
}

int config_read_egress(struct load *l, const struct key *k, const struct yaml_node *n, void *field)
{
	if (n->kind != YAML_WORD || (strcmp(n->text, "narrow") != 0 && strcmp(n->text, "any") != 0))
		return config_refuse(l, k, n);
	*(bool *)field = n->text[0] == 'a';
	return 0;
}

/* ---- numbers ---- */

static int read_count(struct load *l, const struct key *k, const struct yaml_node *n, uint64_t min, uint64_t max,
		      void *field)
{
	uint64_t v = 0;

	if (n->kind != YAML_WORD || units_count(n->text, max, &v, NULL) < 0 || v < min)
		return config_refuse(l, k, n);
	*(uint32_t *)field = (uint32_t)v;
	return 0;
}

int config_read_sandboxes(struct load *l, const struct key *k, const struct yaml_node *n, void *field)
{
	return read_count(l, k, n, 1, CONFIG_SANDBOXES_MAX, field);
}

int config_read_pool(struct load *l, const struct key *k, const struct yaml_node *n, void *field)
{
	return read_count(l, k, n, 0, CONFIG_POOL_MAX, field);
}

int config_read_size(struct load *l, const struct key *k, const struct yaml_node *n, void *field)
{
	uint64_t v = 0;

	if (n->kind != YAML_WORD || units_size(n->text, &v, NULL) < 0 || v < (1 << 20))
		return config_refuse(l, k, n);
	*(uint64_t *)field = v;
	return 0;
}

int config_read_timeout(struct load *l, const struct key *k, const struct yaml_node *n, void *field)
{
	uint64_t v = 0;

	if (n->kind != YAML_WORD || units_duration(n->text, &v, NULL) < 0 || v < 1000 ||
	    v > SPEC_TIMEOUT_MAX_MS)
		return config_refuse(l, k, n);
	*(uint64_t *)field = v;
	return 0;
}
