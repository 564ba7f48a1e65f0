#pragma once
/*
 * Profiles: named sets of settings in YAML. docs/man/brig-profile.5 describes the format.
 *
 * A profile is a foreign file: at most PROFILE_MAX bytes, one document, no aliases, anchors or tags,
 * no unknown and no repeated key. Every refusal names the file and the line.
 */
#include "core/spec.h"

#include <stddef.h>

enum { PROFILE_MAX = 64 * 1024 };

enum profile_key {
#define KEY(id, name, shape, text) PROFILE_##id,
#include "core/profile_keys.def"
#undef KEY
	PROFILE_KEY_COUNT
};

struct yaml_node;

struct profile {
	char *name;   /* owned; NULL when the file gives none */
	struct yaml_node *egress; /* rules, a map for src/egress to read; owned, NULL = nothing may leave */
	uint32_t set; /* bit per enum profile_key: the file gave it */
};
static inline bool profile_has(const struct profile *p, enum profile_key k)
{
	return (p->set >> k & 1) != 0;
}

/*
 * Read the profile text[0..len) into *s, on top of what is there: given settings replace, `env` is
 * merged by name, `require` is added. `file` is for messages only.
 * On failure *s may be half changed but stays valid for spec_done; *ret is untouched.
 */
int must_check profile_load(const char *file, const char *text, size_t len, struct spec *s,
			    struct profile *ret, struct err *e);
/* Read a profile file (a regular file or a pipe) and load it over *s. */
int must_check profile_read(const char *path, struct spec *s, struct profile *ret, struct err *e);
void profile_done(struct profile *p);

/* Add NAME=VALUE to a list, replacing an entry of the same name. 0, -ENOMEM. */
int must_check env_put(struct strv *env, const char *kv);
/* Find the bit of a --require word. 0, or an error with the nearest word. */
int must_check require_parse(const char *word, size_t len, uint32_t *ret, struct err *e);
/* The words of a set of such bits, in the table's order: the next one from *at (0 at first), NULL after the last. */
const char *require_word(uint32_t set, size_t *at);
/* The words root, root_caps and sudo take. 0, or an error that lists them. */
int must_check root_mode_parse(const char *word, enum root_mode *ret, struct err *e);
int must_check root_caps_parse(const char *word, enum root_caps *ret, struct err *e);
int must_check sudo_use_parse(const char *word, enum sudo_use *ret, struct err *e);
const char *root_mode_name(enum root_mode m);
const char *root_caps_name(enum root_caps c);
const char *sudo_use_name(enum sudo_use u);
