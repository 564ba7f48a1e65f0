#pragma once
/* Packages of a recipe, resolved and downloaded by apt, which checks signatures and digests. */
#include "base/err.h"
#include "image/recipe.h"

/* Download into a folder of the cache (BRIG_CACHE, else $XDG_CACHE_HOME or ~/.cache, /brig) and return its path
 * (owned): it holds the packages as *.deb. name tells recipes apart. */
int must_check image_apt_fetch(const struct recipe *r, const char *name, bool show, char **debs, struct err *e);

/* What is installed with every recipe: what dpkg itself needs. NULL-terminated. */
extern const char *const image_apt_needed[];
