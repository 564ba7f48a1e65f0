#include "sys/path.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Theory of operation. The path comes from a sandbox or an archive: hostile. The kernel resolves it
 * in one call under all three restrictions, so nothing can be swapped between a check and the use.
 * A rename elsewhere can make RESOLVE_BENEATH answer EAGAIN; that is retried a few times. */

enum { TRIES = 16 };

int path_open_beneath(int dirfd, const char *path, int flags, mode_t mode)
{
	struct open_how how = {
	    .flags = (unsigned)(flags | O_CLOEXEC | (flags & O_PATH ? 0 : O_NOCTTY)),
	    .mode = flags & O_CREAT ? mode : 0,
	    .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
	};

	for (int i = 0; i < TRIES; i++) {
		long r = syscall(SYS_openat2, dirfd, path, &how, sizeof(how));

		if (r >= 0)
			return (int)r;
		if (errno != EAGAIN && errno != EINTR)
			break;
	}
	return -errno;
}
