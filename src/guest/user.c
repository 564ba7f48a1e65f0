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

char *user_read_file(const char *path, size_t *ret_n)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	_cleanup_free_ char *p = NULL;
	struct stat st;
	size_t n = 0;

	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size > USER_FILE_MAX)
		return NULL;
	p = malloc((size_t)st.st_size + 1);
	if (p == NULL)
		return NULL;
	while (n < (size_t)st.st_size) {
		ssize_t got = read(fd, p + n, (size_t)st.st_size - n);

		if (got < 0)
			return NULL;
		if (got == 0)
			break;
		n += (size_t)got;
	}
	*ret_n = n;
	return steal_ptr(&p);
}

int user_load(const char *spec, size_t spec_len, struct user *ret)
{
	size_t passwd_n = 0, group_n = 0;
	_cleanup_free_ char *passwd = user_read_file("/etc/passwd", &passwd_n);
	_cleanup_free_ char *group = NULL;
	int r = user_find(spec, spec_len, passwd, passwd_n, ret);

	if (r < 0)
		return r;
	group = user_read_file("/etc/group", &group_n);
	if (group != NULL)
		user_groups(group, group_n, ret);
	return 0;
}
