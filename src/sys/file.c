#include "sys/file.h"

#include "base/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

int file_write_all(int fd, const void *p, size_t n)
{
	const char *c = p;

	while (n > 0) {
		ssize_t w = write(fd, c, n);

		if (w < 0) {
			if (errno == EINTR)
				continue;
			return -errno;
		}
		c += w;
		n -= (size_t)w;
	}
	return 0;
}

int file_put(int dirfd, const char *path, const char *text)
{
	_cleanup_close_ int fd = openat(dirfd, path, O_WRONLY | O_CLOEXEC);
	size_t n = 0;
	ssize_t w;

	if (fd < 0)
		return -errno;
	while (text[n] != '\0')
		n++;
	w = write(fd, text, n);
	if (w < 0)
		return -errno;
	return (size_t)w == n ? 0 : -EIO;
}

ssize_t file_get(int dirfd, const char *path, char *dst, size_t size)
{
	_cleanup_close_ int fd = openat(dirfd, path, O_RDONLY | O_CLOEXEC);
	size_t used = 0;

	if (fd < 0)
		return -errno;
	for (;;) {
		ssize_t r = read(fd, dst + used, size - used);

		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0)
			return -errno;
		if (r == 0)
			break;
		used += (size_t)r;
		if (used == size)
			return -EFBIG;
	}
	dst[used] = '\0';
	return (ssize_t)used;
}

int file_get_u64(int dirfd, const char *path, uint64_t *ret)
{
	char text[32] = "", *end;
	ssize_t n = file_get(dirfd, path, text, sizeof(text));
	unsigned long long v;

	if (n < 0)
		return (int)n;
	if (text[0] < '0' || text[0] > '9')
		return -EINVAL;
	errno = 0;
	v = strtoull(text, &end, 10);
	if (errno != 0 || (*end != '\n' && *end != '\0'))
		return -EINVAL;
	*ret = v;
	return 0;
}
