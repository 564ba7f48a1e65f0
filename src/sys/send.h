#pragma once
/* What waits in a buffer, to a socket. */
#include "base/buf.h"

/* Send from the front of b as far as fd takes it, without waiting (send(2)); what is left stays in
 * b. 0, or -errno when the other side is gone. */
int must_check buf_send(struct buf *b, int fd);
