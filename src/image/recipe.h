#pragma once
/*
 * A recipe: which Debian packages make an image (YAML; docs/images.md). The file may be somebody else's:
 * every word is checked here, since words of it become arguments of programs and lines of files.
 */
#include "image/image.h"

#include <stddef.h>

enum { RECIPE_MAX = 64 * 1024, RECIPE_PACKAGES_MAX = 1000, RECIPE_MIRRORS_MAX = 8 };

struct recipe {
	char *suite;          /* [a-z0-9-]+ */
	char *keyring;        /* absolute path on this host; NULL = apt's own keys */
	char *user;           /* uid 1000 of the image; NULL = none */
	char *workdir;        /* absolute; NULL = none */
	struct strv packages; /* names, without versions */
	struct strv mirrors;  /* http or https URLs; none = the host's own sources */
	struct strv env, cmd;
};

/* file: its name in messages. 0, or ERR_INVALID naming the key. */
int must_check recipe_load(const char *file, const char *text, size_t n, struct recipe *ret, struct err *e);
void recipe_done(struct recipe *r);
