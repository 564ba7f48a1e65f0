#include "cli/image_local.h"

#include "base/cleanup.h"
#include "base/quote.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

/*
 * The name is looked up here, once, and pinned: the sandbox gets it as a line of its /etc/hosts, so
 * no answer that comes later leads elsewhere, and names without a dot and those of the host's own
 * /etc/hosts work. The gate gets one `local` rule for the one address and port.
 *
 * A loopback address is the sandbox's own inside. There the registry stands at an address of
 * TEST-NET-1 (RFC 5737), which the gate dials as the loopback address it stands for; one given as a
 * number is called localhost, which names it in a certificate as well.
 */

#define STAND_IN "192.0.2.1"
enum { ANSWER_MS = 3000 };

static bool is_loopback(const struct sockaddr *sa)
{
	struct sockaddr_in s4;
	struct sockaddr_in6 s6;

	if (sa->sa_family == AF_INET) {
		memcpy(&s4, sa, sizeof(s4));
		return (ntohl(s4.sin_addr.s_addr) >> 24) == IN_LOOPBACKNET;
	}
	memcpy(&s6, sa, sizeof(s6));
	return IN6_IS_ADDR_LOOPBACK(&s6.sin6_addr);
}

/* Does somebody listen there? 0 or -errno. */
static int answers(const struct addrinfo *a)
{
	_cleanup_close_ int fd =
	    socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct pollfd p = {.fd = fd, .events = POLLOUT};
	socklen_t n = sizeof(int);
	int err = 0;

	if (fd < 0)
		return -errno;
	if (connect(fd, a->ai_addr, a->ai_addrlen) == 0)
		return 0;
	if (errno != EINPROGRESS)
		return -errno;
	if (poll(&p, 1, ANSWER_MS) != 1)
		return -ETIMEDOUT;
	return getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &n) < 0 ? -errno : -err;
}

/* HOST, [V6] and the port as text. 0 or -EINVAL. */
static int split(const char *text, char host[256], char port[8])
{
	const char *colon = strrchr(text, ':'), *end = text + strlen(text);
	bool bracket = text[0] == '[';

	if (colon != NULL && bracket && strchr(colon, ']') != NULL)
		colon = NULL;
	(void)snprintf(port, 8, "%.6s", colon != NULL ? colon + 1 : "443");
	end = colon != NULL ? colon : end;
	if (bracket && (end - text < 3 || end[-1] != ']'))
		return -EINVAL;
	text += bracket;
	end -= bracket;
	if (end <= text || end - text > 255 || port[0] < '1' || port[0] > '9' ||
	    port[strspn(port, "0123456789")] != '\0')
		return -EINVAL;
	memcpy(host, text, (size_t)(end - text));
	host[end - text] = '\0';
	return 0;
}

static int fill(const struct addrinfo *a, const char *host, const char *port,
		struct image_local *ret)
{
	char number[INET6_ADDRSTRLEN], line[IMAGE_LOCAL_TEXT];
	bool loopback = is_loopback(a->ai_addr), v6 = a->ai_family == AF_INET6;
	struct addrinfo *same = NULL;
	struct addrinfo as_number = {.ai_flags = AI_NUMERICHOST};
	bool numeric = getaddrinfo(host, NULL, &as_number, &same) == 0;
	const char *name = loopback && numeric ? "localhost" : host;
	const char *l = v6 && !loopback ? "[" : "", *r = v6 && !loopback ? "]" : "", *inside;

	if (numeric)
		freeaddrinfo(same);
	if (getnameinfo(a->ai_addr, a->ai_addrlen, number, sizeof(number), NULL, 0,
			NI_NUMERICHOST) != 0)
		return -EINVAL;
	inside = loopback ? STAND_IN : number;
	(void)snprintf(ret->host, sizeof(ret->host), "%s%.255s%s:%s", numeric ? l : "", name,
		       numeric ? r : "", port);
	(void)snprintf(ret->rule, sizeof(ret->rule), "local %s%s%s:%s@%s\n", l, inside, r, port,
		       number);
	if (numeric && !loopback)
		return 0;
	(void)snprintf(line, sizeof(line), "%s %.255s", inside, name);
	return strv_add(&ret->hosts, line);
}

int image_local_find(const char *text, struct image_local *ret, struct err *e)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV},
			*all = NULL;
	char host[256], port[8], q[QUOTE_MAX];
	int r = split(text, host, port), why = -EHOSTUNREACH;

	*ret = (struct image_local){.host = ""};
	if (r < 0)
		return err_set(e, ERR_INVALID, EINVAL, "%s: HOST[:PORT] is needed", quote(text, q));
	r = getaddrinfo(host, port, &hints, &all);
	if (r != 0)
		return err_set(e, ERR_NOT_FOUND, ENOENT, "%s: no address: %s", quote(text, q),
			       gai_strerror(r));
	for (const struct addrinfo *a = all; a != NULL && why != 0; a = a->ai_next) {
		int got = a->ai_family == AF_INET || a->ai_family == AF_INET6 ? answers(a)
									      : -EAFNOSUPPORT;

		if (got == 0)
			r = fill(a, host, port, ret);
		why = got;
	}
	freeaddrinfo(all);
	if (why != 0)
		return err_set(e, ERR_NOT_FOUND, -why, "%s does not answer: %s", quote(text, q),
			       strerror(-why));
	if (r < 0)
		return err_set(e, ERR_INTERNAL, -r, "%s: %s", quote(text, q), strerror(-r));
	return 0;
}

void image_local_done(struct image_local *l) { strv_done(&l->hosts); }
