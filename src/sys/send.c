#include "sys/send.h"

#include <errno.h>
#include <sys/socket.h>

int buf_send(struct buf *b, int fd)
{
	while (b->len > 0) {
		ssize_t n = send(fd, buf_head(b), b->len, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno == EAGAIN ? 0 : -errno;
		buf_consume(b, (size_t)n);
	}
	return 0;
}
