#include "guest/child_priv.h"
#include "guest/program.h"
#include "guest/report.h"
#include "wire/sudo.h"

#include "base/num.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

/*
 * The child that `sudo` inside is answered by. It is a copy of PID 1, below a guard, and reads the request itself: a caller
 * that is slow, says nothing or says something malformed holds up this process, which PID 1 ends after a time, and
 * never PID 1. From there on it goes the way of any other exec.
 *
 * What the caller hands over: exactly four descriptors, of whatever kind. Nothing is done with the first three but to make them
 * 0, 1 and 2; all others, and any that come later, are closed by the kernel.
 */

enum { CONN_FD = STATUS_FD + 1, KEEP_FDS };

/* Nobody hears it any more. */
static noreturn void caller_gone(void)
{
	_exit(1);
}

static noreturn void malformed(void)
{
	child_fail(EPROTO, "not a request", NULL);
}

static void read_all(uint8_t *dst, size_t n)
{
	while (n > 0) {
		ssize_t got = recv(CONN_FD, dst, n, MSG_WAITALL);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			caller_gone();
		dst += got;
		n -= (size_t)got;
	}
}

/* The header, and the descriptors that come with its first byte. */
static size_t read_header(int fds[SUDO_FDS])
{
	union {
		struct cmsghdr align;
		uint8_t space[CMSG_SPACE(sizeof(int) * SUDO_FDS)];
	} ctl;
	uint8_t head[SUDO_HDR];
	struct iovec iov = {.iov_base = head, .iov_len = sizeof(head)};
	struct msghdr m = {
	    .msg_iov = &iov, .msg_iovlen = 1, .msg_control = ctl.space, .msg_controllen = sizeof(ctl.space)};
	const struct cmsghdr *c;
	ssize_t n;
	int len;

	do
		n = recvmsg(CONN_FD, &m, MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	if (n <= 0)
		caller_gone();
	c = CMSG_FIRSTHDR(&m);
	if ((m.msg_flags & MSG_CTRUNC) != 0 || c == NULL || c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS ||
	    c->cmsg_len != CMSG_LEN(sizeof(int) * SUDO_FDS))
		malformed();
	memcpy(fds, CMSG_DATA(c), sizeof(int) * SUDO_FDS);
	read_all(head + n, sizeof(head) - (size_t)n);
	len = sudo_header_decode(head);
	if (len < 0)
		malformed();
	return (size_t)len;
}

static void read_message(size_t n, struct ask *ret)
{
	uint8_t *msg = malloc(n + 1);

	if (msg == NULL)
		child_fail(ENOMEM, "reading the request", NULL);
	read_all(msg, n);
	if (sudo_request_check(msg, n) < 0 || ask_parse(msg, n, ret) < 0)
		malformed();
}

/* A command inherits the caller's folder, which its own user may have no way into. Asked for as the caller: it is a
 * descriptor, and could be of a folder the caller has no way into either. */
static bool enter_as_caller(const struct child *c, int cwd)
{
	bool done;

	(void)setfsgid(c->caller_gid);
	(void)setfsuid(c->caller_uid);
	done = fchdir(cwd) == 0;
	(void)setfsuid(geteuid());
	(void)setfsgid(getegid());
	(void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0); /* a change of ids sets it anew (proc(5)) */
	return done;
}

/* Who called, from what the kernel says. */
static char **who_called(const struct child *c)
{
	static char uid[32], gid[32], name[16 + USER_STR_MAX], *list[PROGRAM_ENV_MORE + 1];
	char spec[16];
	struct user u;

	(void)snprintf(uid, sizeof(uid), "SUDO_UID=%u", c->caller_uid);
	(void)snprintf(gid, sizeof(gid), "SUDO_GID=%u", c->caller_gid);
	(void)snprintf(spec, sizeof(spec), "%u", c->caller_uid);
	if (user_load(spec, strlen(spec), &u) < 0 || u.name[0] == '\0')
		(void)snprintf(u.name, sizeof(u.name), "#%u", c->caller_uid);
	(void)snprintf(name, sizeof(name), "SUDO_USER=%s", u.name);
	list[0] = uid;
	list[1] = gid;
	list[2] = name;
	return list;
}

noreturn void child_sudo(const struct child *c)
{
	int keep[KEEP_FDS] = {c->null_fd, c->null_fd, c->null_fd, c->status, c->conn_fd};
	struct child mine = *c;
	int fds[SUDO_FDS];
	char **argv, **env;
	struct ask q;
	struct user u;
	bool inside;

	child_descriptors(keep, KEEP_FDS);
	read_message(read_header(fds), &q);
	for (int i = 0; i < 3; i++)
		if (dup3(fds[i], i, 0) < 0)
			child_fail(errno, "taking descriptors", NULL);
	mine.ask = &q;
	child_reset(&mine);
	/* signals of the caller's may come from now on */
	(void)report_send(STATUS_FD, &(struct report){.type = REPORT_READY});
	(void)close(CONN_FD);
	argv = ask_args(&q, F_ARG, 0);
	if (argv == NULL)
		child_fail(ENOMEM, "arguments", NULL);
	child_find_user(&mine, &u);
	inside = enter_as_caller(&mine, fds[SUDO_FDS - 1]);
	child_become(&mine, &u);
	if (q.argc == 0)
		_exit(0); /* it may, and could */
	if (!inside && fchdir(fds[SUDO_FDS - 1]) < 0)
		child_fail(errno, "working folder", NULL);
	env = program_env(&q, &u, who_called(&mine));
	if (env == NULL)
		child_fail(ENOMEM, "environment", NULL);
	child_run(argv, env);
}
