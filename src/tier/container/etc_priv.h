#pragma once
#include "core/spec.h"

#include <stdbool.h>

/* Write the made-up /etc of image "host" below root_fd, whose "etc" exists; gate: names are asked of the
 * gate. 0 or -errno. */
int etc_fill(int root_fd, const struct spec *spec, const char *hostname, bool gate) __attribute__((warn_unused_result));
extern const char etc_passwd[]; /* its users */
