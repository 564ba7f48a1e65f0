#include "api/server_priv.h"

#include "base/cleanup.h"
#include "base/num.h"
#include "base/quote.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

enum { BACKLOG = 1024, CONNECTIONS_MAX = 16384, OWN_FDS = 64 };

static int listen_unix(const char *path, int *ret_fd, struct err *e)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	_cleanup_close_ int fd = -1;
	struct stat st;

	if (strlen(path) >= sizeof(addr.sun_path))
		return err_set(e, ERR_INVALID, ENAMETOOLONG, "listen: the path of the socket is too long");
	memcpy(addr.sun_path, path, strlen(path) + 1);
	if (lstat(path, &st) == 0 && S_ISSOCK(st.st_mode))
		(void)unlink(path);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0 || bind(fd, (const struct sockaddr *)&addr, sizeof(addr)) < 0 || listen(fd, BACKLOG) < 0)
		return err_set(e, ERR_DENIED, errno, "listen on %s", path);
	*ret_fd = steal_fd(&fd);
	return 0;
}

/* Who has vanished without a word is noticed after two minutes: a tunnel, and a call that waits, have no limit of idleness of
 * their own. Connections have it from the listening socket. */
static bool probes_on(int fd)
{
	static const struct {
		int level, name, value;
	} o[] = {{SOL_SOCKET, SO_KEEPALIVE, 1}, {IPPROTO_TCP, TCP_KEEPIDLE, 60}, {IPPROTO_TCP, TCP_KEEPINTVL, 15}, {IPPROTO_TCP, TCP_KEEPCNT, 4}};

	for (size_t i = 0; i < ARRAY_LEN(o); i++)
		if (setsockopt(fd, o[i].level, o[i].name, &o[i].value, sizeof(o[i].value)) < 0)
			return false;
	return true;
}

static int listen_inet(const char *host, const char *port, int *ret_fd, uint16_t *ret_port, struct err *e)
{
	struct addrinfo hint = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE};
	struct addrinfo *ai = NULL;
	union {
		struct sockaddr any;
		struct sockaddr_in four;
		struct sockaddr_in6 six;
	} at;
	socklen_t n = sizeof(at);
	_cleanup_close_ int fd = -1;
	int r = 0, on = 1;

	memset(&at, 0, sizeof(at));

	if (getaddrinfo(host, port, &hint, &ai) != 0)
		return err_set(e, ERR_INVALID, EINVAL, "listen: %s:%s is no address and port", host, port);
	fd = socket(ai->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0 || !probes_on(fd) ||
	    bind(fd, ai->ai_addr, ai->ai_addrlen) < 0 || listen(fd, BACKLOG) < 0 ||
	    getsockname(fd, &at.any, &n) < 0)
		r = err_set(e, ERR_DENIED, errno, "listen on %s:%s", host, port);
	freeaddrinfo(ai);
	if (r < 0)
		return r;
	*ret_port = ntohs(at.any.sa_family == AF_INET6 ? at.six.sin6_port : at.four.sin_port);
	*ret_fd = steal_fd(&fd);
	return 0;
}

int listen_open(const char *where, int *ret_fd, uint16_t *ret_port, struct err *e)
{
	const char *colon = strrchr(where, ':');
	char host[64], q[QUOTE_MAX];
	size_t n;

	*ret_port = 0;
	if (strncmp(where, "unix:", 5) == 0)
		return listen_unix(where + 5, ret_fd, e);
	n = colon != NULL ? (size_t)(colon - where) : 0;
	if (n >= 2 && where[0] == '[' && where[n - 1] == ']') {
		where++;
		n -= 2;
	}
	if (n == 0 || n >= sizeof(host))
		return err_set(e, ERR_INVALID, EINVAL, "listen: %s is not ADDRESS:PORT", quote(where, q));
	memcpy(host, where, n);
	host[n] = '\0';
	return listen_inet(host, colon + 1, ret_fd, ret_port, e);
}

unsigned listen_connections(bool tls)
{
	/* the client's socket and the keeper's; with TLS a pair between it and the server too */
	const rlim_t each = tls ? 4 : 2;
	struct rlimit l;

	if (getrlimit(RLIMIT_NOFILE, &l) < 0)
		return 256;
	l.rlim_cur = l.rlim_max;
	(void)setrlimit(RLIMIT_NOFILE, &l);
	if (l.rlim_max == RLIM_INFINITY || l.rlim_max / each > CONNECTIONS_MAX + OWN_FDS)
		return CONNECTIONS_MAX;
	return l.rlim_max > 2 * each * OWN_FDS ? (unsigned)(l.rlim_max / each) - OWN_FDS : OWN_FDS;
}
