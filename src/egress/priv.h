#pragma once
/* Inside the loader of egress rules. */
#include "core/yaml_tree.h"
#include "egress/egress.h"
#include "gate/judge.h"

enum egress_section {
	SECTION_NONE,
	SECTION_TOP,
	SECTION_DNS,
	SECTION_PROXY,
	SECTION_LIMITS,
	SECTION_ON_DENY,
	SECTION_DENY,
	SECTION_RULE,
	SECTION_HTTP,
	SECTION_INJECT,
	SECTION_RLIMITS,
};

struct egress_load {
	struct egress *g;
	const char *file;
	struct err *e;
};

/* Check a map against the rows of its section, and what is below it: shapes, ranges, words. */
int must_check schema_check(struct egress_load *l, enum egress_section s, const struct yaml_node *map);
/* One line for the gate, from this line of the file. */
int must_check emit(struct egress_load *l, int line, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* The lines of all rows of a checked section that have a wire form. */
int must_check emit_section(struct egress_load *l, enum egress_section s, const struct yaml_node *map);
/* A rule of a checked section RULE or DENY. */
int must_check rule_emit(struct egress_load *l, enum egress_section s, const struct yaml_node *rule);

/*
 * A host as people write it to what the gate takes: lower case, labels in other scripts as A-labels (IDNA2008), stars kept.
 * single: one label may do. suffix_ok: a wildcard below a public suffix is meant. *single is set when the name has one label,
 * which only these two permit. The result is the caller's. ERR_INVALID without file and line.
 */
int must_check host_read(const char *host, bool single_ok, bool suffix_ok, char **ret, bool *single, struct err *e);
