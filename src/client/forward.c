#include "client/forward.h"

#include "base/cleanup.h"
#include "base/num.h"
#include "base/quote.h"
#include "client/pump.h"
#include "cmd/say.h"
#include "parse/http.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/*
 * Who connects is a program of this machine, which may say what it likes: its head is read strictly
 * and written anew, so it cannot name another sandbox, and no key is ever part of it. "Connection:
 * close" makes the request the only one of its connection, on both sides, so nothing of a second
 * one needs to be found in the bytes; after one that asks for another protocol, pump.c sends
 * nothing before the daemon has agreed. (With "upgrade" beside it, "close" is for when it does
 * not.)
 */

static bool is_ours(struct http_text name)
{
	return http_is(name, "host") || http_is(name, "e2b-sandbox-id") ||
	       http_is(name, "e2b-sandbox-port") || http_is(name, "e2b-traffic-access-token") ||
	       http_is(name, "x-api-key") || http_is(name, "x-access-token");
}

static int put(struct buf *b, const char *s, size_t n) { return buf_put(b, s, n); }

static int put_pair(struct buf *b, const char *name, const char *value)
{
	return http_put_field(b, http_text(name), http_text(value));
}

int forward_head(const uint8_t *p, size_t n, const struct box_ref *b, unsigned port,
		 const char *host, struct buf *out, bool *ret_switch, const char **why)
{
	static struct http_head h; /* one connection in a process */
	size_t name_n = strcspn(host, "/");
	char nr[8];
	ssize_t size = http_parse(p, n, true, &h, why);
	int r;

	if (size <= 0)
		return (int)size;
	(void)snprintf(nr, sizeof(nr), "%u", port);
	r = put(out, h.method.p, h.method.n);
	if (r == 0)
		r = put(out, " ", 1);
	if (r == 0 && h.target.p[0] == '/')
		r = put(out, host + name_n, strlen(host + name_n));
	if (r == 0)
		r = put(out, h.target.p, h.target.n);
	if (r == 0)
		r = put(out, " HTTP/1.1\r\n", 11);
	for (uint32_t i = 0; r == 0 && i < h.fields_n; i++)
		if (http_is(h.field[i].name, "transfer-encoding") ||
		    (!http_is_hop(&h, h.field[i].name) && !is_ours(h.field[i].name)))
			r = http_put_field(out, h.field[i].name, h.field[i].value);
	if (r == 0)
		r = http_put_field(out, http_text("Host"), (struct http_text){host, name_n});
	if (r == 0)
		r = put_pair(out, "E2b-Sandbox-Id", b->id);
	if (r == 0)
		r = put_pair(out, "E2b-Sandbox-Port", nr);
	if (r == 0 && b->traffic[0] != '\0')
		r = put_pair(out, "E2b-Traffic-Access-Token", b->traffic);
	*ret_switch = h.upgrade.n > 0;
	if (r == 0 && h.upgrade.n > 0)
		r = http_put_field(out, http_text("Upgrade"), h.upgrade);
	if (r == 0)
		r = put_pair(out, "Connection", h.upgrade.n > 0 ? "upgrade, close" : "close");
	if (r == 0)
		r = put(out, "\r\n", 2);
	return r < 0 ? r : (int)size;
}

/* ---- one connection, in a process of its own ---- */

static void refuse(int fd, const char *status, const char *why)
{
	char text[512];
	int n = snprintf(text, sizeof(text),
			 "HTTP/1.1 %s\r\nContent-Type: text/plain\r\nConnection: "
			 "close\r\nContent-Length: %zu\r\n\r\n%s",
			 status, strlen(why), why);

	if (n < 0 || say_raw(fd, text, (size_t)n) < 0)
		return; /* it is gone */
}

/* Read a head: its size, *ret_n bytes are there. 0 = the connection ended or was refused. */
static int read_head(int fd, struct buf *in, const struct box_ref *b, unsigned port,
		     const char *host, struct buf *out, bool *ret_switch)
{
	for (;;) {
		struct pollfd pf = {.fd = fd, .events = POLLIN};
		uint8_t *p = buf_reserve(in, 4096);
		const char *why = NULL;
		ssize_t n = p != NULL && poll(&pf, 1, PUMP_IDLE_MS) > 0 ? read(fd, p, 4096) : -1;
		int r;

		if (p == NULL)
			refuse(fd, "431 Request Header Fields Too Large",
			       "the head is too large\n");
		if (n <= 0)
			return 0;
		buf_commit(in, (size_t)n);
		r = forward_head(buf_head(in), in->len, b, port, host, out, ret_switch, &why);
		if (r < 0)
			refuse(fd, "400 Bad Request",
			       why != NULL ? why : "the request cannot be passed on\n");
		if (r != 0)
			return r < 0 ? 0 : r;
	}
}

static void serve(struct client *cl, const struct box_ref *b, unsigned port, int fd)
{
	struct buf in = {.max = HTTP_HEAD_MAX + 4096},
		   out = {.max = (size_t)3 * HTTP_HEAD_MAX + 8192};
	const char *host = strstr(cl->where.url, "://") + 3;
	curl_socket_t at = CURL_SOCKET_BAD;
	char *url = NULL;
	CURL *c = NULL;
	bool asked = false;
	int head = read_head(fd, &in, b, port, host, &out, &asked);
	size_t head_n = out.len;

	if (head > 0 && buf_put(&out, buf_head(&in) + head, in.len - (size_t)head) == 0)
		c = http_handle(&cl->http, "/", &url);
	buf_done(&in);
	if (c != NULL) {
		(void)curl_easy_setopt(c, CURLOPT_CONNECT_ONLY, 1L);
		if (curl_easy_perform(c) != CURLE_OK ||
		    curl_easy_getinfo(c, CURLINFO_ACTIVESOCKET, &at) != CURLE_OK ||
		    at == CURL_SOCKET_BAD)
			refuse(fd, "502 Bad Gateway", "the daemon does not answer\n");
		else
			pump(c, at, fd, &out, head_n, asked);
	}
	curl_easy_cleanup(c);
	free(url);
	buf_done(&out);
}

/* ---- listening ---- */

int forward_address(const char *text, char host[64], char port[8], struct err *e)
{
	const char *colon = strrchr(text, ':'), *digits = colon != NULL ? colon + 1 : text;
	size_t n = colon != NULL ? (size_t)(colon - text) : 0;
	char q[QUOTE_MAX];
	bool six = n > 2 && text[0] == '[' && text[n - 1] == ']';

	if (strlen(digits) == 0 || strlen(digits) > 5 ||
	    strspn(digits, "0123456789") != strlen(digits) || atol(digits) > 65535 || n >= 64 ||
	    (colon != NULL && n == 0))
		return err_set(e, ERR_INVALID, EINVAL,
			       "--forward %s: PORT or ADDRESS:PORT is wanted", quote(text, q));
	(void)snprintf(port, 8, "%s", digits);
	if (n == 0)
		(void)snprintf(host, 64, "127.0.0.1");
	else
		(void)snprintf(host, 64, "%.*s", (int)(six ? n - 2 : n), six ? text + 1 : text);
	return 0;
}

static int listen_on(const char *host, const char *port, int *ret_fd, struct err *e)
{
	struct addrinfo hint = {.ai_socktype = SOCK_STREAM,
				.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE},
			*ai = NULL;
	_cleanup_close_ int fd = -1;
	char q[QUOTE_MAX];
	int on = 1, r = 0;

	if (getaddrinfo(host, port, &hint, &ai) != 0)
		return err_set(e, ERR_INVALID, EINVAL, "--forward: %s is no address",
			       quote(host, q));
	fd = socket(ai->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0 ||
	    bind(fd, ai->ai_addr, ai->ai_addrlen) < 0 || listen(fd, FORWARD_MAX) < 0)
		r = err_set(e, ERR_DENIED, errno, "--forward: listening on %s port %s: %s",
			    quote(host, q), port, strerror(errno));
	freeaddrinfo(ai);
	if (r == 0)
		*ret_fd = steal_fd(&fd);
	return r;
}

static unsigned bound_port(int fd)
{
	union {
		struct sockaddr any;
		struct sockaddr_in four;
		struct sockaddr_in6 six;
	} at;
	socklen_t n = sizeof(at);

	memset(&at, 0, sizeof(at));
	if (getsockname(fd, &at.any, &n) < 0)
		return 0;
	return ntohs(at.any.sa_family == AF_INET6 ? at.six.sin6_port : at.four.sin_port);
}

static void reap(unsigned *n, int flags)
{
	while (*n > 0 && waitpid(-1, NULL, flags) > 0)
		(*n)--;
}

static void accept_one(struct client *c, const struct box_ref *b, unsigned port, int listen_fd,
		       unsigned *n)
{
	/* cppcheck-suppress nullPointer ; nobody wants the address */
	int fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC);
	pid_t parent = getpid(), pid;

	if (fd < 0)
		return;
	pid = fork();
	if (pid == 0) {
		(void)close(listen_fd);
		if (prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && getppid() == parent)
			serve(c, b, port, fd);
		_exit(0);
	}
	(void)close(fd);
	*n += pid > 0;
}

int forward_serve(struct client *c, const struct box_ref *b, unsigned port, const char *text,
		  struct err *e)
{
	_cleanup_close_ int fd = -1, signal_fd = -1;
	char host[64], at[8], line[160];
	unsigned n = 0;
	sigset_t set;
	int r = forward_address(text, host, at, e);

	if (r == 0)
		r = listen_on(host, at, &fd, e);
	if (r < 0)
		return r;
	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	sigaddset(&set, SIGCHLD);
	(void)sigprocmask(SIG_BLOCK, &set, NULL);
	signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (signal_fd < 0)
		return err_set(e, ERR_INTERNAL, errno, "signalfd: %s", strerror(errno));
	(void)snprintf(line, sizeof(line),
		       strchr(host, ':') != NULL ? "http://[%s]:%u\n" : "http://%s:%u\n", host,
		       bound_port(fd));
	r = say_raw(STDOUT_FILENO, line, strlen(line));
	while (r == 0) {
		struct pollfd pf[] = {{.fd = signal_fd, .events = POLLIN},
				      {.fd = n < FORWARD_MAX ? fd : -1, .events = POLLIN}};
		struct signalfd_siginfo si;

		if (poll(pf, 2, -1) < 0)
			continue;
		while (read(signal_fd, &si, sizeof(si)) == (ssize_t)sizeof(si))
			if (si.ssi_signo != SIGCHLD)
				return 0; /* those under way end with us */
		reap(&n, WNOHANG);
		if (pf[1].revents != 0)
			accept_one(c, b, port, fd, &n);
	}
	return err_set(e, ERR_INTERNAL, -r, "standard output: %s", strerror(-r));
}
