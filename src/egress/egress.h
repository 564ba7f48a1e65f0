#pragma once
/*
 * Egress rules as people write them (YAML files, the key `egress` of a profile, words of the command line), made into the
 * lines that the gate reads (gate/judge.h). Only brig does this, never the gate's process.
 *
 * Files may be somebody else's: unknown keys, repeated keys, wrong types and ranges are refused with "FILE:LINE: what".
 * docs/man/brig-egress.5 describes the format.
 */
#include "base/buf.h"
#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

struct yaml_node;

enum { EGRESS_FILE_MAX = 512 * 1024 };

struct egress_from { /* where a line comes from */
	const char *file;
	int line; /* 0 = the command line */
};
struct egress {
	struct buf text;          /* lines for the gate */
	struct egress_from *from; /* of each line; owned */
	uint32_t from_n, from_cap;
};

void egress_init(struct egress *g);
void egress_done(struct egress *g);
/* Add what a file says. `file` is kept: it must live as long as *g. */
int must_check egress_add_text(struct egress *g, const char *file, const char *text, size_t n, struct err *e);
/* Read the file (a regular file or a pipe) and add it. */
int must_check egress_add_file(struct egress *g, const char *path, struct err *e);
/* Add a map with the file's keys, from a document that was read already. */
int must_check egress_add_node(struct egress *g, const char *file, const struct yaml_node *map, struct err *e);
/* Of such a map only its proxy, if it has one: it holds whoever else's rules are used instead of the map's. */
int must_check egress_add_proxy(struct egress *g, const char *file, const struct yaml_node *map, struct err *e);
enum egress_verb { EGRESS_ALLOW, EGRESS_RANGE, EGRESS_DENY };
/* Add HOST:PORTS[/PROTOCOL][@NET,...], or NET:PORTS. */
int must_check egress_add_word(struct egress *g, enum egress_verb verb, const char *word, struct err *e);
/* Check all of it together. *ret is the text for the gate, with its SHA-256; the caller's to free. */
int must_check egress_finish(struct egress *g, char **ret, struct err *e);
