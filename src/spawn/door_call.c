#include "spawn/door.h"
#include "spawn/door_priv.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/num.h"
#include "base/quote.h"
#include "spawn/plan_rules.h"
#include "wire/door.h"

#include <dirent.h>
#include <errno.h>
#include <linux/netlink.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

/* The caller's side of a door. Who listens is checked too: the folder may be an enemy's by a wrong
 * BRIG_STATE. */

enum { ANSWER_S = 15, IDS_MAX = 256 * 1024 };

static int gone(const char *id, struct err *e)
{
	char q[QUOTE_MAX];

	return err_set(e, ERR_NOT_FOUND, ENOENT,
		       "%s: no sandbox of yours with this id runs and has a gate ('brig egress "
		       "list' names them)",
		       quote(id, q));
}

static int knock(const char *id, int *ret_fd, struct err *e)
{
	_cleanup_close_ int dir_fd = -1, fd = -1;
	struct timeval limit = {.tv_sec = ANSWER_S};
	struct sockaddr_un a;
	int r = door_dir(false, &dir_fd, e);

	if (r == -ENOENT)
		return gone(id, e);
	if (r < 0)
		return r;
	if (!door_addr(dir_fd, id, &a))
		return gone(id, e);
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return err_set(e, ERR_INTERNAL, errno, "egress: %s", strerror(errno));
	(void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	(void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
	door_room(fd);
	if (connect(fd, (const struct sockaddr *)&a, sizeof(a)) < 0) {
		r = errno;
		if (r == ECONNREFUSED) /* its brig was killed */
			(void)unlinkat(dir_fd, id, 0);
		if (r == ENOENT || r == ECONNREFUSED)
			return gone(id, e);
		return err_set(e, ERR_DENIED, r, "egress: %s", strerror(r));
	}
	if (!door_peer_good(fd) && geteuid() != 0)
		return err_set(e, ERR_DENIED, EPERM, "egress: another user listens there");
	*ret_fd = steal_fd(&fd);
	return 0;
}

/* One answer: its text, and the descriptor that may come with it. */
/* NOLINTNEXTLINE(readability-non-const-parameter): an iovec has no const */
static ssize_t take(int fd, char *msg, size_t size, int *ret_fd)
{
	union {
		char space[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} ctl = {{0}};
	struct iovec iov = {.iov_base = msg, .iov_len = size};
	struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = &ctl, .msg_controllen = sizeof(ctl)};
	ssize_t n = recvmsg(fd, &m, MSG_CMSG_CLOEXEC);
	const struct cmsghdr *c = n < 0 ? NULL : CMSG_FIRSTHDR(&m);

	if (c != NULL && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS && c->cmsg_len == CMSG_LEN(sizeof(int)))
		memcpy(ret_fd, CMSG_DATA(c), sizeof(int));
	return n;
}

/* Whoever has the door may be somebody else's when we are root: only a socket for rules is spoken to. */
static bool is_netfilter(int fd)
{
	int domain = -1, protocol = -1;
	socklen_t n = sizeof(domain), m = sizeof(protocol);

	return fd >= 0 && getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &n) == 0 &&
	       getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &m) == 0 && domain == AF_NETLINK && protocol == NETLINK_NETFILTER;
}

/* The sandbox's keeper may not change the kernel's ranges, we may: see struct door_answer. */
static int load_ranges(int fd, int rules_fd, const char *rules, size_t n, struct err *e)
{
	_cleanup_free_ struct net_plan *p = NULL;
	struct door_ask done = {.kind = DOOR_RANGES};
	int r = plan_rules(rules, n, PLAN_HTTP, &p, e);

	if (r == 0) {
		r = rules == NULL || !is_netfilter(rules_fd) ? -EPROTO : net_replace(rules_fd, p);
		if (r < 0)
			(void)err_set(e, ERR_INTERNAL, -r, "egress: the kernel keeps the old address ranges: %s", strerror(-r));
	}
	done.text_n = (uint32_t)-r;
	return send(fd, &done, sizeof(done), MSG_NOSIGNAL) < 0 ? err_set(e, ERR_LOST, EPIPE, "egress: the sandbox ended") : r;
}

static int hear(int fd, const char *rules, size_t rules_n, struct door_said *ret, struct err *e)
{
	_cleanup_free_ char *msg = malloc(sizeof(struct door_answer) + DOOR_TEXT_MAX + 1);
	struct door_answer a = {.ranges = 1};
	int r = msg == NULL ? err_no_memory(e) : 0;

	for (int i = 0; r == 0 && i < 2 && a.ranges != 0; i++) {
		_cleanup_close_ int rules_fd = -1;
		ssize_t n = take(fd, msg, sizeof(struct door_answer) + DOOR_TEXT_MAX, &rules_fd);

		if (n < (ssize_t)sizeof(a))
			return err_set(e, ERR_LOST, EPIPE, "egress: the sandbox ended, or does not answer");
		memcpy(&a, msg, sizeof(a));
		msg[n] = '\0';
		if (a.err == 0 && a.ranges != 0)
			r = load_ranges(fd, rules_fd, rules, rules_n, e);
	}
	if (r < 0)
		return r;
	if (a.err != 0 || a.ranges != 0)
		return err_set(e, a.err == EPERM ? ERR_DENIED : ERR_INVALID, a.err != 0 ? (int)a.err : EPROTO,
			       "egress: %s", msg + sizeof(a));
	ret->generation = a.generation;
	ret->text = strdup(msg + sizeof(a));
	return ret->text == NULL ? err_no_memory(e) : 0;
}

int door_call(const char *id, uint32_t kind, const char *text, size_t n, struct door_said *ret,
	      struct err *e)
{
	struct door_ask q = {.kind = kind, .text_n = (uint32_t)n};
	struct iovec iov[2] = {
	    {.iov_base = &q, .iov_len = sizeof(q)},
	    /* NOLINTNEXTLINE(performance-no-int-to-ptr): an iovec has no const */
	    {.iov_base = (void *)(uintptr_t)text, .iov_len = n}};
	struct msghdr m = {.msg_iov = iov, .msg_iovlen = n > 0 ? 2 : 1};
	_cleanup_close_ int fd = -1;
	int r;

	*ret = (struct door_said){.text = NULL};
	if (n > DOOR_TEXT_MAX)
		return err_set(e, ERR_LIMITED, E2BIG, "egress: more than %d KiB of rules",
			       DOOR_TEXT_MAX / 1024);
	r = knock(id, &fd, e);
	if (r < 0)
		return r;
	/* one that is refused for who it is may find the door closed already: the reason is there
	 * all the same */
	if (sendmsg(fd, &m, MSG_NOSIGNAL) < 0 && errno != EPIPE)
		return err_set(e, ERR_INTERNAL, errno, "egress: %s", strerror(errno));
	return hear(fd, text, n, ret, e);
}

void door_remove(const char *id)
{
	_cleanup_close_ int dir_fd = -1;
	struct sockaddr_un a;

	if (door_dir(false, &dir_fd, NULL) == 0 && door_addr(dir_fd, id, &a))
		(void)unlinkat(dir_fd, id, 0);
}

/* ---- list ---- */

static bool is_open(int dir_fd, const char *id)
{
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct sockaddr_un a;

	if (fd < 0 || !door_addr(dir_fd, id, &a))
		return false;
	if (connect(fd, (const struct sockaddr *)&a, sizeof(a)) == 0 || errno == EAGAIN)
		return true;
	if (errno == ECONNREFUSED)
		(void)unlinkat(dir_fd, id, 0);
	return false;
}

int door_list(char **ret, struct err *e)
{
	_cleanup_close_ int dir_fd = -1;
	struct buf b;
	DIR *dir;
	int fd, r = door_dir(false, &dir_fd, e);

	buf_init(&b, IDS_MAX);
	if (r < 0 && r != -ENOENT)
		return r;
	fd = r == 0 ? dup(dir_fd) : -1;
	dir = fd < 0 ? NULL : fdopendir(fd);
	if (dir == NULL && fd >= 0)
		(void)close(fd);
	r = 0;
	for (const struct dirent *d; r == 0 && dir != NULL && (d = readdir(dir)) != NULL;)
		if (is_open(dir_fd, d->d_name) &&
		    (buf_put(&b, d->d_name, strlen(d->d_name)) < 0 || buf_put(&b, "\n", 1) < 0))
			r = err_set(e, ERR_LIMITED, E2BIG, "egress: too many sandboxes");
	if (dir != NULL)
		(void)closedir(dir);
	if (r == 0 && (*ret = strndup(b.len > 0 ? (const char *)buf_head(&b) : "", b.len)) == NULL)
		r = err_no_memory(e);
	buf_done(&b);
	return r;
}
