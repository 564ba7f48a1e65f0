#include "guest/user.h"

#include "base/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Whatever lies at these paths is the sandbox's: opened without blocking, read only when it is a plain
 * file of bounded size. */

enum { USUAL = 2048 }; /* of bytes; read without taking memory, which is given back with its pages */

/* Into room[0..USUAL) when it fits there (NULL = never), else into memory of its own. */
static char *read_file(const char *path, char *room, size_t *ret_n)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat st;
	size_t n = 0;
	char *p;

	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size > USER_FILE_MAX)
		return NULL;
	p = room != NULL && st.st_size <= USUAL ? room : malloc((size_t)st.st_size + 1);
	if (p == NULL)
		return NULL;
	while (n < (size_t)st.st_size) {
		ssize_t got = read(fd, p + n, (size_t)st.st_size - n);

		if (got < 0) {
			if (p != room)
				free(p);
			return NULL;
		}
		if (got == 0)
			break;
		n += (size_t)got;
	}
	*ret_n = n;
	return p;
}

char *user_read_file(const char *path, size_t *ret_n) { return read_file(path, NULL, ret_n); }

int user_load(const char *spec, size_t spec_len, struct user *ret)
{
	char room[USUAL];
	size_t n = 0;
	char *p = read_file("/etc/passwd", room, &n);
	int r = user_find(spec, spec_len, p, n, ret);

	if (p != room)
		free(p);
	if (r < 0)
		return r;
	p = read_file("/etc/group", room, &n);
	if (p != NULL)
		user_groups(p, n, ret);
	if (p != room)
		free(p);
	return 0;
}
