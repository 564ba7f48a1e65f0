#pragma once
/*
 * A map of YAML (JSON too, which is YAML) as a tree, for files with structure: plain forms only (core/yaml_plain.h), no
 * repeated key, bounded depth and number of values. Every refusal is "FILE:LINE: what".
 */
#include "core/yaml_plain.h"

#include <stdbool.h>

enum yaml_kind { YAML_WORD, YAML_LIST, YAML_MAP };
enum { YAML_DEPTH_MAX = 8, YAML_VALUES_MAX = 65536, YAML_KEYS_MAX = 256 };

struct yaml_node {
	enum yaml_kind kind;
	int line;        /* of the key in a map, else of the value; from 1 */
	bool quoted;     /* a word in quotes: text, whatever it looks like */
	char *key;       /* in a map; owned */
	char *text;      /* of a word, "" = empty; owned */
	struct yaml_node *child, *next;
};

/* The value that the current event begins, up to its end. 0, or an error with nothing to free. */
int must_check yaml_tree_value(struct yaml_plain *y, struct yaml_node **ret);
/* A whole document, which is a map. kind: "profile", for messages. */
int must_check yaml_tree(const char *file, const char *kind, const char *text, size_t n, struct yaml_node **ret,
			 struct err *e);
void yaml_tree_free(struct yaml_node *n); /* accepts NULL */
const struct yaml_node *yaml_get(const struct yaml_node *map, const char *key); /* NULL = not there */
/* "FILE:LINE: ..." as ERR_INVALID. Returns -EINVAL. */
int yaml_refuse(const char *file, int line, struct err *e, const char *fmt, ...) __attribute__((format(printf, 4, 5)));
