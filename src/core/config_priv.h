#pragma once
/*
 * How the keys of a configuration are read: maps (config.c) and single values (config_value.c). A reader has one key's row, and puts
 * what the node says where the row tells.
 */
#include "core/config.h"
#include "core/yaml_tree.h"

#define LOWER  "abcdefghijklmnopqrstuvwxyz"
#define UPPER  "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define DIGITS "0123456789"

struct load {
	const char *file;
	struct config *c;
	struct err *e;
};

struct key;
typedef int key_read(struct load *l, const struct key *k, const struct yaml_node *n, void *field);
struct key {
	const char *name, *text;
	size_t field;
	key_read *read;
};

/* Say that this is not what the key takes. */
int config_refuse(struct load *l, const struct key *k, const struct yaml_node *n);
/* 1 to max characters of these, no '-' or '.' first. */
bool config_made_of(const char *s, size_t max, const char *of);

/* ---- config_value.c, one for each word in config_keys.def that is not a map or a list ---- */
key_read config_read_version, config_read_path, config_read_listen, config_read_domain, config_read_user, config_read_image, config_read_flag, config_read_egress, config_read_sandboxes, config_read_pool, config_read_size, config_read_timeout;
