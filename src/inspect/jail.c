#include "inspect/jail.h"

#include "base/num.h"
#include "sys/confine.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <sys/syscall.h>

/* It holds secrets and parses what sandboxes and servers send: whoever took it over could talk to those it is connected to
 * and to nobody else. */

enum { INSPECT_ID = 0x6ffffffe }; /* the id below the gate's */

static const struct sock_filter filter[] = {
    CONFINE_BEGIN,
#define ALLOW(call) CONFINE_ALLOW(call),
#include "inspect/seccomp.def"
#undef ALLOW
    CONFINE_REFUSE,
};

int inspect_jail(char *why, size_t size)
{
	static const char *const files[] = {NULL};
	const struct confine c = {
	    .who = "inspect", .id = INSPECT_ID, .files = files, .filter = filter, .filter_n = ARRAY_LEN(filter)};

	return confine_enter(&c, why, size);
}
