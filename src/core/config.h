#pragma once
/*
 * The configuration of the daemon, one YAML file that brigd and brig-spawn both read: brigd to know what to serve,
 * brig-spawn so that a brigd that has been taken over can start nothing but the operator's templates.
 * docs/daemon.md describes the format.
 *
 * At most CONFIG_MAX bytes, one document, no aliases, anchors or tags, no unknown and no repeated key. Every refusal names
 * the file and the line.
 */
#include "core/spec.h"

#include <stddef.h>

enum {
	CONFIG_MAX = 256 * 1024,
	CONFIG_NAME_MAX = 64, /* bytes of a template's name or alias */
	CONFIG_TEMPLATES_MAX = 64,
	CONFIG_ALIASES_MAX = 16,
	CONFIG_TENANTS_MAX = 256,
	CONFIG_POOL_MAX = 256,
	CONFIG_SANDBOXES_MAX = 4096, /* as many as there are records (spawn/record.h) */
};

/* What sandboxes of one tenant may be alive at once. */
struct config_tenant {
	char *name;             /* as keys name it; "*" = of each tenant without a row of its own */
	uint32_t max_sandboxes; /* 0 = as many as there is room for */
	uint64_t max_memory;    /* bytes, of their limits together; 0 = not limited */
};

struct config_template {
	char *name;         /* letters, digits, . _ - and / */
	char *profile;      /* absolute path; NULL = brig's defaults */
	char *image;        /* 'host', a stored image or an absolute path; NULL = the profile's */
	bool image_or_host; /* --dev: when the image is not there, 'host' */
	bool code;          /* with the code interpreter */
	bool any_egress;    /* a caller may say what may leave; false: only narrow the profile's rules */
	uint32_t pool;      /* how many are kept started */
	struct strv alias;
};

struct config {
	char *version;
	char *listen;             /* "127.0.0.1:7080", "[::1]:7080", "unix:/PATH" */
	char *tls_cert, *tls_key; /* both or none */
	char *domain;
	char *state, *spawn;      /* absolute paths */
	char *user;               /* NAME or UID of brigd, for brig-spawn as root; NULL = the same as brig-spawn's */
	uint32_t max_sandboxes;
	uint64_t default_timeout_ms, max_timeout_ms; /* default <= max */
	uint32_t tenants_n;
	struct config_tenant *tenants;
	uint32_t templates_n;     /* at least 1 */
	struct config_template *templates;
};

/* Read the text of a file; `file` is for messages. On failure *ret needs no config_done. */
int must_check config_load(const char *file, const char *text, size_t len, struct config *ret, struct err *e);
/* What --dev serves: templates `base` and `code-interpreter-v1`, on loopback. state, spawn: absolute paths, copied. */
int must_check config_dev(const char *state, const char *spawn, struct config *ret, struct err *e);
void config_done(struct config *c); /* accepts an all-zero one */
/* By name or alias; NULL = there is none. */
const struct config_template *config_template(const struct config *c, const char *name);
/* The row that holds for a tenant; NULL = there is none, and nothing but max_sandboxes of all. */
const struct config_tenant *config_tenant(const struct config *c, const char *name);
