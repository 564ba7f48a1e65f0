#pragma once
/* Packages of a recipe, resolved and downloaded by apt on the host, which checks signatures and digests. */
#include "base/err.h"
#include "image/recipe.h"

#include <stdbool.h>

/* What one build needs: a folder with exactly its packages, as *.deb, removed by image_debs_done. */
struct image_debs {
	char *dir;      /* owned */
	int lock_fd;    /* held while the folder is in use */
	unsigned int n; /* packages in it */
};
#define IMAGE_DEBS_INIT ((struct image_debs){.lock_fd = -1})

/*
 * Download what r needs and is not in the cache yet (BRIG_CACHE, else $XDG_CACHE_HOME or ~/.cache, /brig). file:
 * the recipe's name in messages. pins: "NAME=VERSION" that hold for whatever is installed; may be empty. show:
 * a person looks.
 */
int must_check image_apt_fetch(const struct recipe *r, const char *file, const struct strv *pins, bool show,
			       struct image_debs *ret, struct err *e);
void image_debs_done(struct image_debs *d);
/* The recipe's `without` as a list of dpkg's Provides (owned). */
int must_check image_apt_provides(const struct recipe *r, char **ret, struct err *e);
