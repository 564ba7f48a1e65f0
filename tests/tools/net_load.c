/*
 * Both ends of the network benchmark (tests/bench/egress.py): plain sockets, so that what lies between is measured and not
 * a language. Numbers go to standard output, one line.
 *
 *   net_load serve ADDR PORT [RESOLVER]   echo, source and sink, until killed (by the first byte: 'c', 's', 'k');
 *                                         RESOLVER: every name is ADDR, asked there
 *   net_load relay ADDR PORT ADDR2 PORT2  the least that can stand between: what is connected to ADDR goes on to ADDR2, by one process
 *                                         that decides, records and limits nothing, until killed
 *   net_load down HOST PORT N SECONDS     bytes a second that N connections receive together
 *   net_load up HOST PORT N SECONDS       the same, sent
 *   net_load connect HOST PORT N          microseconds until a byte came back on a new connection, N times
 *   net_load ask HOST PORT N              the same, with the question for the name before each
 *   net_load rtt HOST PORT N              microseconds for a byte there and back, N times
 *   net_load rate HOST PORT N             new connections a second, N in all by 8 processes
 *   net_load hold HOST PORT N             open N, write "held", wait for the end of standard input
 *
 * HOST is an address, or NAME@RESOLVER, then asked for once unless said otherwise. The resolver is asked by hand: a C
 * library's own way there (files, search lists, two families) would be half of what is measured.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { BLOCK = 256 * 1024, WORKERS = 8, WARM_US = 200000, PAUSE_US = 1000 };
static char block[BLOCK];

static double now_us(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static _Noreturn void fail(const char *what)
{
	(void)fprintf(stderr, "net_load: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void address(const char *text, const char *port, struct sockaddr_in *ret)
{
	*ret = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port))};
	if (inet_pton(AF_INET, text, &ret->sin_addr) != 1)
		fail(text);
}

/* ---- names: one question, one address (RFC 1035) ---- */

enum { DNS_HEAD = 12, DNS_MAX = 512 };

static size_t put_name(uint8_t *at, const char *name)
{
	size_t n = 0;

	while (*name != '\0') {
		size_t len = strcspn(name, ".");

		at[n++] = (uint8_t)len;
		memcpy(at + n, name, len);
		n += len;
		name += len + (name[len] == '.' ? 1 : 0);
	}
	at[n++] = 0;
	return n;
}

static void ask(const char *name, const char *resolver, struct in_addr *ret)
{
	static const uint8_t head[DNS_HEAD] = {0x12, 0x34, 1, 0, 0, 1}, a_in[4] = {0, 1, 0, 1};
	const struct timeval patience = {.tv_sec = 5};
	struct sockaddr_in to;
	uint8_t m[DNS_MAX];
	size_t n = DNS_HEAD;
	ssize_t got;
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	address(resolver, "53", &to);
	memcpy(m, head, DNS_HEAD);
	n += put_name(m + n, name);
	memcpy(m + n, a_in, sizeof(a_in));
	n += sizeof(a_in);
	(void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	if (connect(fd, (const struct sockaddr *)&to, sizeof(to)) < 0 || send(fd, m, n, 0) < 0)
		fail("asking");
	got = recv(fd, m, sizeof(m), 0);
	if (got < (ssize_t)n + 16 || m[7] != 1) /* the one record is the last */
		fail("no address");
	memcpy(ret, m + got - 4, 4);
	(void)close(fd);
}

/* The question as it came, with one record behind it: only questions of ask() come here. */
static void answer(int fd, struct in_addr a)
{
	static const uint8_t rr[12] = {0xc0, DNS_HEAD, 0, 1, 0, 1, 0, 0, 0, 30, 0, 4};
	struct sockaddr_in from;
	socklen_t m = sizeof(from);
	uint8_t q[DNS_MAX];
	ssize_t got = recvfrom(fd, q, sizeof(q) / 2, 0, (struct sockaddr *)&from, &m);
	size_t n = DNS_HEAD;
	bool is_a;

	if (got < DNS_HEAD + 5)
		return;
	while (n < (size_t)got && q[n] != 0)
		n += 1u + q[n];
	n += 5;
	if (n > (size_t)got)
		return;
	is_a = q[n - 4] == 0 && q[n - 3] == 1;
	q[2] = 0x81;
	q[3] = 0x80;
	memset(q + 6, 0, 6);
	q[7] = is_a ? 1 : 0;
	if (is_a) {
		memcpy(q + n, rr, sizeof(rr));
		memcpy(q + n + sizeof(rr), &a, 4);
		n += sizeof(rr) + 4;
	}
	(void)!sendto(fd, q, n, MSG_NOSIGNAL, (const struct sockaddr *)&from, m);
}

/* ---- the server: a process for each that moves bytes, none for those that say a byte ---- */

static _Noreturn void serve_one(int fd, char kind)
{
	for (;;) {
		ssize_t n = kind == 's' ? send(fd, block, sizeof(block), MSG_NOSIGNAL) : recv(fd, block, sizeof(block), 0);

		if (n <= 0)
			_exit(0);
	}
}

static void said(int fd)
{
	char kind = 0;
	ssize_t got = recv(fd, &kind, 1, 0);

	if (got == 1 && kind == 'c') {
		(void)!send(fd, &kind, 1, MSG_NOSIGNAL);
		return;
	}
	if (got == 1 && fork() == 0)
		serve_one(fd, kind);
	(void)close(fd);
}

static int serve(const char *addr, const char *port, const char *resolver)
{
	struct sockaddr_in a, r;
	struct epoll_event ev[64], add = {.events = EPOLLIN};
	int one = 1, ep = epoll_create1(0), udp = -1, tcp = socket(AF_INET, SOCK_STREAM, 0);

	(void)signal(SIGCHLD, SIG_IGN);
	address(addr, port, &a);
	(void)setsockopt(tcp, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(tcp, (const struct sockaddr *)&a, sizeof(a)) < 0 || listen(tcp, 4096) < 0)
		fail("listen");
	add.data.fd = tcp;
	(void)epoll_ctl(ep, EPOLL_CTL_ADD, tcp, &add);
	if (resolver != NULL) {
		address(resolver, "53", &r);
		udp = socket(AF_INET, SOCK_DGRAM, 0);
		if (bind(udp, (const struct sockaddr *)&r, sizeof(r)) < 0)
			fail("bind");
		add.data.fd = udp;
		(void)epoll_ctl(ep, EPOLL_CTL_ADD, udp, &add);
	}
	(void)printf("ready\n");
	(void)fflush(stdout);
	for (;;) {
		int n = epoll_wait(ep, ev, 64, -1);

		for (int i = 0; i < n; i++) {
			int fd = ev[i].data.fd;

			if (fd == udp) {
				answer(udp, a.sin_addr);
			} else if (fd != tcp) {
				said(fd);
			} else if ((fd = accept(tcp, NULL, NULL)) >= 0) {
				(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
				add.data.fd = fd;
				(void)epoll_ctl(ep, EPOLL_CTL_ADD, fd, &add);
			}
		}
	}
}

/* ---- the least relay: whoever does more takes longer ---- */

enum { FDS_MAX = 16384 };
static int other[FDS_MAX]; /* the socket a socket's bytes go to */

static void join(int ep, int a, const struct sockaddr_in *up)
{
	struct epoll_event add = {.events = EPOLLIN};
	int one = 1, fds[2] = {a, socket(AF_INET, SOCK_STREAM, 0)};

	/* it waits here for the server, which is near: less than to come back for it */
	if (a >= FDS_MAX || fds[1] < 0 || fds[1] >= FDS_MAX || connect(fds[1], (const struct sockaddr *)up, sizeof(*up)) < 0)
		fail("relay");
	for (int i = 0; i < 2; i++) {
		other[fds[i]] = fds[1 - i];
		(void)setsockopt(fds[i], IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
		add.data.fd = fds[i];
		(void)epoll_ctl(ep, EPOLL_CTL_ADD, fds[i], &add);
	}
}

static void pass(int fd)
{
	ssize_t n = other[fd] > 0 ? recv(fd, block, sizeof(block), 0) : -1;

	if (n > 0 && send(other[fd], block, (size_t)n, MSG_NOSIGNAL) == n)
		return;
	for (int i = 0; i < 2 && other[fd] > 0; i++) {
		int peer = other[fd];

		other[fd] = 0;
		(void)close(fd);
		fd = peer;
	}
}

static int relay(const char *addr, const char *port, const char *addr2, const char *port2)
{
	struct epoll_event ev[64], add = {.events = EPOLLIN};
	int one = 1, ep = epoll_create1(0), tcp = socket(AF_INET, SOCK_STREAM, 0);
	struct sockaddr_in a, up;

	address(addr, port, &a);
	address(addr2, port2, &up);
	(void)setsockopt(tcp, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(tcp, (const struct sockaddr *)&a, sizeof(a)) < 0 || listen(tcp, 4096) < 0)
		fail("listen");
	add.data.fd = tcp;
	(void)epoll_ctl(ep, EPOLL_CTL_ADD, tcp, &add);
	(void)printf("ready\n");
	(void)fflush(stdout);
	for (;;) {
		int n = epoll_wait(ep, ev, 64, -1);

		for (int i = 0; i < n; i++)
			if (ev[i].data.fd == tcp)
				join(ep, accept(tcp, NULL, NULL), &up);
			else
				pass(ev[i].data.fd);
	}
}

/* ---- the clients ---- */

static const char *name, *resolver; /* NULL = an address was given */
static struct sockaddr_in to;

static void find(void)
{
	if (name != NULL)
		ask(name, resolver, &to.sin_addr);
}

/* A connection over which one byte came back, or its first byte went. */
static int dial(char first)
{
	int one = 1, fd = socket(AF_INET, SOCK_STREAM, 0);
	char c;

	if (fd < 0 || connect(fd, (const struct sockaddr *)&to, sizeof(to)) < 0)
		fail("connect");
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	if (send(fd, &first, 1, MSG_NOSIGNAL) != 1 || (first == 'c' && recv(fd, &c, 1, 0) != 1))
		fail("the first byte");
	return fd;
}

static ssize_t move(int fd, bool down)
{
	return down ? recv(fd, block, sizeof(block), 0) : send(fd, block, sizeof(block), MSG_NOSIGNAL);
}

static int streams(bool down, int n, double seconds)
{
	double *sum = mmap(NULL, sizeof(double) * WORKERS, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0), all = 0;

	for (int i = 0; i < n && i < WORKERS; i++) {
		int fd;
		double t, end, warm = seconds * 1e6 < WARM_US ? seconds * 1e6 : WARM_US;
		ssize_t got;

		if (fork() != 0)
			continue;
		fd = dial(down ? 's' : 'k');
		t = now_us();
		while (now_us() < t + warm && move(fd, down) > 0)
			; /* windows open */
		t = now_us();
		end = t + seconds * 1e6;
		while (now_us() < end && (got = move(fd, down)) > 0)
			sum[i] += (double)got;
		sum[i] /= (now_us() - t) / 1e6;
		_exit(0);
	}
	while (wait(NULL) > 0)
		;
	for (int i = 0; i < WORKERS; i++)
		all += sum[i];
	(void)printf("%.0f\n", all);
	return all > 0 ? 0 : 1;
}

static int connects(int n, bool each)
{
	for (int i = 0; i < n; i++) {
		double t = now_us();
		int fd;

		if (each)
			find();
		fd = dial('c');
		(void)printf("%.1f ", now_us() - t);
		(void)close(fd);
		(void)usleep(PAUSE_US); /* so that all is at rest */
	}
	(void)printf("\n");
	return 0;
}

static int rtt(int n)
{
	int fd = dial('c');
	char c = 'c';

	for (int i = 0; i < n; i++) {
		double t = now_us();

		if (send(fd, &c, 1, 0) != 1 || recv(fd, &c, 1, 0) != 1)
			fail("rtt");
		(void)printf("%.1f ", now_us() - t);
	}
	(void)printf("\n");
	return 0;
}

static int rate(int n)
{
	double t = now_us();
	int failed = 0, status;

	for (int w = 0; w < WORKERS; w++) {
		if (fork() != 0)
			continue;
		for (int i = 0; i < n / WORKERS; i++)
			(void)close(dial('c'));
		_exit(0);
	}
	while (wait(&status) > 0)
		failed += status != 0;
	(void)printf("%.0f\n", n / ((now_us() - t) / 1e6));
	return failed;
}

static int hold(int n)
{
	char c;

	for (int i = 0; i < n; i++)
		(void)dial('c');
	(void)printf("held\n");
	(void)fflush(stdout);
	while (read(0, &c, 1) > 0)
		;
	return 0;
}

static int client(const char *what, char *host, const char *port, int n, const char *seconds)
{
	char *at = strchr(host, '@');

	if (at != NULL) {
		*at = '\0';
		name = host;
		resolver = at + 1;
	}
	address(at != NULL ? "0.0.0.0" : host, port, &to);
	find();
	(void)alarm(100);
	if (seconds != NULL && strcmp(what, "down") == 0)
		return streams(true, n, atof(seconds));
	if (seconds != NULL && strcmp(what, "up") == 0)
		return streams(false, n, atof(seconds));
	if (strcmp(what, "connect") == 0 || strcmp(what, "ask") == 0)
		return connects(n, what[0] == 'a');
	if (strcmp(what, "rtt") == 0)
		return rtt(n);
	if (strcmp(what, "rate") == 0)
		return rate(n);
	return strcmp(what, "hold") == 0 ? hold(n) : 2;
}

int main(int argc, char **argv)
{
	struct rlimit l;

	if (getrlimit(RLIMIT_NOFILE, &l) == 0) {
		l.rlim_cur = l.rlim_max;
		(void)setrlimit(RLIMIT_NOFILE, &l);
	}
	if ((argc == 4 || argc == 5) && strcmp(argv[1], "serve") == 0)
		return serve(argv[2], argv[3], argv[4]);
	if (argc == 6 && strcmp(argv[1], "relay") == 0)
		return relay(argv[2], argv[3], argv[4], argv[5]);
	if (argc == 5 || argc == 6)
		return client(argv[1], argv[2], argv[3], atoi(argv[4]), argv[5]);
	(void)fprintf(stderr, "net_load: see the top of tests/tools/net_load.c\n");
	return 2;
}
