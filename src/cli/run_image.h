#pragma once
/* `brig run` on an image of the store. */
#include "core/spec.h"

/*
 * When s->image is the name or digest of a stored image: find it, hold it, and fill in what the caller left open
 * (user, working folder, environment). Does nothing for 'host' and for folders. 0 or -errno.
 */
int must_check run_image_use(struct spec *s, struct err *e);
