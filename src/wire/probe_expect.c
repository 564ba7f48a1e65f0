#include "wire/probe_expect.h"

#include <errno.h>
#include <string.h>

/* The agent's reader of what the host expects. Every text must end inside its room. */

static bool ended(const char text[PROBE_TEXT]) { return memchr(text, '\0', PROBE_TEXT) != NULL; }

int probe_expect_read(const void *p, size_t n, struct probe_expect *ret)
{
	if (n != sizeof(*ret))
		return -EPROTO;
	memcpy(ret, p, n);
	return ret->version == PROBE_VERSION && (ret->flags & ~(uint32_t)EXPECT_FLAGS) == 0 && ended(ret->release) &&
		       ended(ret->node) && ended(ret->agent)
		   ? 0
		   : -EPROTO;
}
