#include "spawn/runner_priv.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* What the caller asks of the runner, and what the runner reports: one packet each way (ops.def). */

static void tell_later(struct runner *r, int ret, int fd)
{
	struct runner_later l = r->later[0];

	memmove(r->later, r->later + 1, --r->later_n * sizeof(l));
	l.told(l.arg, l.exec_id, ret, fd);
}

int runner_take(struct runner *r, int flags, struct ctl_report *ret, int *ret_fd)
{
	union {
		char space[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} ctl;
	struct iovec iov = {.iov_base = ret, .iov_len = sizeof(*ret)};
	struct msghdr m = {
	    .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &ctl, .msg_controllen = sizeof(ctl)};
	struct cmsghdr *c;
	ssize_t n;
	int fd = -1;

	do
		n = recvmsg(r->ctl_fd, &m, flags | MSG_CMSG_CLOEXEC);
	/* a runner that ended with a request of ours unread: its last report is queued behind the
	 * error */
	while (n < 0 && (errno == EINTR || errno == ECONNRESET));
	if (n < 0 && errno == EAGAIN)
		return -EAGAIN;
	if (n != (ssize_t)sizeof(*ret)) {
		r->lost = r->state != RUNNER_ENDED;
		r->state = RUNNER_ENDED;
		return -EPIPE;
	}
	c = CMSG_FIRSTHDR(&m);
	if (c != NULL && c->cmsg_type == SCM_RIGHTS && c->cmsg_len == CMSG_LEN(sizeof(int)))
		memcpy(&fd, CMSG_DATA(c), sizeof(fd));
	if (ret->kind == CTL_REPLY && r->later_n > 0) {
		tell_later(r, ret->ret, fd);
		return 0;
	}
	if (ret_fd != NULL && ret->kind == CTL_REPLY)
		*ret_fd = fd;
	else if (fd >= 0)
		(void)close(fd);
	switch ((enum ctl_kind)ret->kind) {
	case CTL_REPLY:
		return 1;
	case CTL_UP:
		r->state = RUNNER_UP;
		return 0;
	case CTL_END:
		r->state = RUNNER_ENDED;
		r->end = ret->end;
		return 0;
	}
	return 0;
}

enum runner_state runner_handle(struct runner *r)
{
	struct ctl_report m;

	while (r->ctl_fd >= 0 && r->state != RUNNER_ENDED && runner_take(r, MSG_DONTWAIT, &m, NULL) >= 0)
		;
	return r->state;
}

static int request(struct runner *r, const struct ctl_request *q, struct ctl_report *ret, int *ret_fd,
		   struct err *e)
{
	int got = 0;

	if (r->state == RUNNER_ENDED || send(r->ctl_fd, q, sizeof(*q), MSG_NOSIGNAL) < 0)
		return err_set(e, ERR_LOST, EPIPE, "the sandbox has ended");
	while (got == 0 && r->state != RUNNER_ENDED)
		got = runner_take(r, 0, ret, ret_fd);
	if (got != 1)
		return err_set(e, ERR_LOST, EPIPE, "the sandbox has ended");
	if (ret->ret < 0)
		return err_set(e, ret->ret == -EOPNOTSUPP ? ERR_UNSUPPORTED : ERR_INTERNAL,
			       -ret->ret, "runner: %s", strerror(-ret->ret));
	return 0;
}

int runner_leaf(struct runner *r, uint32_t exec_id, int *ret_fd, struct err *e)
{
	struct ctl_report a;
	int fd = -1, rc = request(r, &(struct ctl_request){.op = CTL_LEAF, .arg = exec_id}, &a, &fd, e);

	if (rc == 0 && fd < 0)
		return err_set(e, ERR_INTERNAL, EPROTO, "runner: no descriptor came");
	if (rc == 0)
		*ret_fd = fd;
	return rc;
}

int runner_leaf_kill(struct runner *r, uint32_t exec_id, struct err *e)
{
	struct ctl_report a;

	return request(r, &(struct ctl_request){.op = CTL_LEAF_KILL, .arg = exec_id}, &a, NULL, e);
}

static int request_later(struct runner *r, const struct ctl_request *q, runner_told told, void *arg)
{
	if (r->later_n == RUNNER_LATER)
		return -EAGAIN;
	if (r->state == RUNNER_ENDED || send(r->ctl_fd, q, sizeof(*q), MSG_NOSIGNAL) < 0)
		return -EPIPE;
	r->later[r->later_n++] = (struct runner_later){.told = told, .arg = arg, .exec_id = q->arg};
	return 0;
}

int runner_leaf_later(struct runner *r, uint32_t exec_id, runner_told told, void *arg)
{
	return request_later(r, &(struct ctl_request){.op = CTL_LEAF, .arg = exec_id}, told, arg);
}

int runner_leaf_drop(struct runner *r, uint32_t exec_id, runner_told told, void *arg)
{
	return request_later(r, &(struct ctl_request){.op = CTL_LEAF_DROP, .arg = exec_id}, told, arg);
}

int runner_now(struct runner *r, struct runner_now *ret, struct err *e)
{
	struct ctl_report a;
	int rc = request(r, &(struct ctl_request){.op = CTL_NOW}, &a, NULL, e);

	if (rc == 0)
		*ret = a.now;
	return rc;
}

int runner_oom_count(struct runner *r, uint32_t *ret, struct err *e)
{
	struct ctl_report a;
	int rc = request(r, &(struct ctl_request){.op = CTL_OOM_COUNT}, &a, NULL, e);

	if (rc == 0)
		*ret = a.val;
	return rc;
}

int runner_freeze(struct runner *r, bool on, struct err *e)
{
	struct ctl_report a;

	return request(r, &(struct ctl_request){.op = CTL_FREEZE, .arg = on ? 1 : 0}, &a, NULL, e);
}

int runner_deadline(struct runner *r, uint64_t ms, struct err *e)
{
	struct ctl_report a;

	return request(r, &(struct ctl_request){.op = CTL_DEADLINE, .ms = ms}, &a, NULL, e);
}

void runner_kill(struct runner *r)
{
	struct ctl_request q = {.op = CTL_KILL};

	if (r->state != RUNNER_ENDED)
		(void)send(r->ctl_fd, &q, sizeof(q), MSG_NOSIGNAL | MSG_DONTWAIT);
}
