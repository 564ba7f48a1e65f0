#include "core/yaml_tree.h"

#include "base/quote.h"

#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The text is hostile; its size is bounded by the caller, what is made of it by the limits of the header. */

struct reader {
	struct yaml_plain *y;
	uint32_t values;
};

int yaml_refuse(const char *file, int line, struct err *e, const char *fmt, ...)
{
	char text[200];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	return err_set(e, ERR_INVALID, EINVAL, "%.100s:%d: %s", file, line, text);
}

#define SAY(r, ...) yaml_plain_say((r)->y, yaml_plain_line((r)->y), __VA_ARGS__)

static int read_value(struct reader *r, uint32_t depth, struct yaml_node **ret);

static int read_key(struct reader *r, const struct yaml_node *first, char **ret, int *line)
{
	char q[QUOTE_MAX];

	if (r->y->ev.type != YAML_SCALAR_EVENT)
		return SAY(r, "a key is expected here");
	for (const struct yaml_node *n = first; n != NULL; n = n->next)
		if (n->key != NULL && strcmp(n->key, yaml_plain_word(r->y)) == 0)
			return SAY(r, "%s is given twice (first in line %d)", quote_bare(n->key, q), n->line);
	*line = yaml_plain_line(r->y);
	*ret = strdup(yaml_plain_word(r->y));
	return *ret == NULL ? SAY(r, "out of memory") : yaml_plain_next(r->y);
}

static int read_children(struct reader *r, uint32_t depth, bool map, struct yaml_node *parent)
{
	struct yaml_node **end = &parent->child;
	yaml_event_type_t stop = map ? YAML_MAPPING_END_EVENT : YAML_SEQUENCE_END_EVENT;
	uint32_t keys = 0;
	int rc;

	while ((rc = yaml_plain_next(r->y)) == 0 && r->y->ev.type != stop) {
		char *key = NULL;
		int line = 0;

		if (map && ++keys > YAML_KEYS_MAX) /* they are compared with each other */
			return SAY(r, "more than %d keys in one map", YAML_KEYS_MAX);
		rc = map ? read_key(r, parent->child, &key, &line) : 0;
		if (rc == 0)
			rc = read_value(r, depth + 1, end);
		if (rc < 0 || *end == NULL) {
			free(key);
			return rc < 0 ? rc : -EINVAL;
		}
		(*end)->key = key;
		(*end)->line = map ? line : (*end)->line;
		end = &(*end)->next;
	}
	return rc;
}

static int read_value(struct reader *r, uint32_t depth, struct yaml_node **ret)
{
	yaml_event_type_t type = r->y->ev.type;
	struct yaml_node *n;
	int rc = 0;

	if (type != YAML_SCALAR_EVENT && type != YAML_MAPPING_START_EVENT && type != YAML_SEQUENCE_START_EVENT)
		return SAY(r, "a value is expected here");
	if (depth > YAML_DEPTH_MAX)
		return SAY(r, "nested deeper than %d", YAML_DEPTH_MAX);
	if (++r->values > YAML_VALUES_MAX)
		return SAY(r, "more than %d values", YAML_VALUES_MAX);
	n = calloc(1, sizeof(*n));
	if (n == NULL)
		return SAY(r, "out of memory");
	n->line = yaml_plain_line(r->y);
	n->kind = type == YAML_SCALAR_EVENT ? YAML_WORD : type == YAML_MAPPING_START_EVENT ? YAML_MAP : YAML_LIST;
	if (n->kind == YAML_WORD) {
		n->quoted = r->y->ev.data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
		n->text = strdup(yaml_plain_word(r->y));
		rc = n->text == NULL ? SAY(r, "out of memory") : 0;
	} else {
		rc = read_children(r, depth, n->kind == YAML_MAP, n);
	}
	if (rc < 0) {
		yaml_tree_free(n);
		return rc;
	}
	*ret = n;
	return 0;
}

int yaml_tree_value(struct yaml_plain *y, struct yaml_node **ret)
{
	struct reader r = {.y = y};

	return read_value(&r, 1, ret);
}

int yaml_tree(const char *file, const char *kind, const char *text, size_t n, struct yaml_node **ret, struct err *e)
{
	struct yaml_plain y = {.file = file, .kind = kind, .e = e};
	struct yaml_node *root = NULL;
	int rc = yaml_plain_open(&y, text, n);

	if (rc < 0)
		return rc;
	rc = yaml_plain_begin(&y, "version: 1");
	if (rc == 0)
		rc = yaml_tree_value(&y, &root);
	if (rc == 0)
		rc = yaml_plain_end(&y);
	yaml_plain_done(&y);
	if (rc < 0) {
		yaml_tree_free(root);
		return rc;
	}
	*ret = root;
	return 0;
}

void yaml_tree_free(struct yaml_node *n)
{
	while (n != NULL) {
		struct yaml_node *after = n->next;

		yaml_tree_free(n->child); /* as deep as YAML_DEPTH_MAX */
		free(n->key);
		free(n->text);
		free(n);
		n = after;
	}
}

const struct yaml_node *yaml_get(const struct yaml_node *map, const char *key)
{
	for (const struct yaml_node *n = map->child; n != NULL; n = n->next)
		if (strcmp(n->key, key) == 0)
			return n;
	return NULL;
}
