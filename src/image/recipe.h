#pragma once
/*
 * A recipe: which Debian packages make an image (YAML; docs/images.md). The file may be somebody else's:
 * every word is checked here, since words of it become arguments of programs and lines of files.
 */
#include "image/image.h"

#include <stddef.h>

enum { RECIPE_MAX = 64 * 1024, RECIPE_WORDS_MAX = 1000, RECIPE_WORD_MAX = 1024 };
enum recipe_key {
#define KEY(id, name, shape, field, check, text) RECIPE_##id,
#include "image/recipe_keys.def"
#undef KEY
	RECIPE_KEY_COUNT,
};

struct recipe {
	char *suite;          /* [a-z0-9-]+ */
	char *snapshot;       /* 20260131T000000Z, of snapshot.debian.org; NULL = today's packages */
	char *keyring;        /* absolute path on this host; NULL = Debian's */
	char *user;           /* uid 1000 of the image; NULL = none */
	char *workdir;        /* absolute; NULL = none */
	struct strv packages; /* NAME or NAME=VERSION */
	struct strv without;  /* packages that dependencies name and that stay out */
	struct strv mirrors;  /* "URL [SUITE [COMPONENT]...]"; none = Debian's own archive */
	struct strv env, cmd;
	int line[RECIPE_KEY_COUNT];             /* of each key, from 1; 0 = not given */
	int package_line[RECIPE_WORDS_MAX + 1]; /* of each package */
};

/* file: its name in messages. 0, or an error that begins with "FILE:LINE: ". */
int must_check recipe_load(const char *file, const char *text, size_t n, struct recipe *ret, struct err *e);
void recipe_done(struct recipe *r);
/* The checks of single words, for the command line: "NAME=VERSION", and an entry of `mirrors`. */
bool recipe_is_pinned(const char *word);
bool recipe_is_mirror(const char *word);
