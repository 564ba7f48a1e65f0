#include "sudo/talk.h"

#include "base/cleanup.h"
#include "base/num.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

int talk_connect(void)
{
	static const char name[] = SUDO_SOCKET;
	union {
		struct sockaddr_un un;
		struct sockaddr any;
	} addr = {.un = {.sun_family = AF_UNIX}};
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct ucred who = {.pid = 0};
	socklen_t len = sizeof(who);

	memcpy(addr.un.sun_path + 1, name, sizeof(name) - 1);
	if (fd < 0 || connect(fd, &addr.any, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + sizeof(name))) < 0)
		return -errno;
	/* descriptors are about to be handed over: to nobody else */
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len) < 0 || who.pid != 1)
		return -EPROTO;
	return steal_fd(&fd);
}

static bool peer_gone(int err)
{
	return err == EPIPE || err == ECONNRESET;
}

static int send_rest(int fd, const uint8_t *p, size_t n)
{
	while (n > 0) {
		ssize_t sent = send(fd, p, n, MSG_NOSIGNAL);

		if (sent < 0 && errno == EINTR)
			continue;
		if (sent < 0)
			return peer_gone(errno) ? 0 : -errno;
		p += sent;
		n -= (size_t)sent;
	}
	return 0;
}

int talk_ask(int fd, const struct buf *request, int cwd_fd)
{
	union {
		struct cmsghdr align;
		uint8_t space[CMSG_SPACE(sizeof(int) * SUDO_FDS)];
	} ctl = {.space = {0}};
	const int fds[SUDO_FDS] = {0, 1, 2, cwd_fd};
	uint8_t head[SUDO_HDR];
	struct iovec iov = {.iov_base = head, .iov_len = sizeof(head)};
	struct msghdr m = {
	    .msg_iov = &iov, .msg_iovlen = 1, .msg_control = ctl.space, .msg_controllen = sizeof(ctl.space)};
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);
	ssize_t n;

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(fds));
	memcpy(CMSG_DATA(c), fds, sizeof(fds));
	sudo_header(head, (uint32_t)request->len);
	do
		n = sendmsg(fd, &m, MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return peer_gone(errno) ? 0 : -errno;
	return send_rest(fd, buf_head(request), request->len); /* 12 bytes are sent whole */
}

/* What is passed on, unless we were told to ignore it. */
static const int passed[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGALRM, SIGWINCH, SIGTSTP, SIGCONT};

static int catch_signals(void)
{
	sigset_t set;

	sigemptyset(&set);
	for (size_t i = 0; i < ARRAY_LEN(passed); i++) {
		struct sigaction old;

		if (sigaction(passed[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN)
			sigaddset(&set, passed[i]);
	}
	(void)sigprocmask(SIG_SETMASK, &set, NULL);
	return signalfd(-1, &set, SFD_CLOEXEC);
}

/* A stop is for both: the command is in no session of a terminal's, where SIGTSTP means nothing. */
static void pass_on(int fd, int sig_fd)
{
	struct signalfd_siginfo si;
	uint8_t sig;

	if (read(sig_fd, &si, sizeof(si)) != (ssize_t)sizeof(si))
		return;
	sig = si.ssi_signo == SIGTSTP ? SIGSTOP : (uint8_t)si.ssi_signo;
	(void)!send(fd, &sig, 1, MSG_NOSIGNAL);
	if (sig == SIGSTOP)
		(void)raise(SIGSTOP);
}

int talk_wait(int fd, struct sudo_reply *ret)
{
	_cleanup_close_ int sig_fd = catch_signals();
	struct pollfd p[2] = {{.fd = fd, .events = POLLIN}, {.fd = sig_fd, .events = POLLIN}};
	uint8_t text[SUDO_REPLY_MAX];
	size_t n = 0;

	for (;;) {
		ssize_t got;

		if (poll(p, 2, -1) < 0)
			continue;
		if (p[1].revents != 0)
			pass_on(fd, sig_fd);
		if (p[0].revents == 0)
			continue;
		got = recv(fd, text + n, sizeof(text) - n, 0);
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return sudo_reply_decode(text, n, ret);
		n += (size_t)got;
	}
}
