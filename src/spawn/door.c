#include "spawn/door.h"
#include "spawn/door_priv.h"

#include "base/cleanup.h"
#include "base/num.h"
#include "spawn/plan_rules.h"
#include "spawn/record.h"
#include "wire/door.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

/*
 * One caller at a time: others wait in the socket's queue, so that new rules are taken one after
 * another and each answer is about its own. A caller that says nothing holds up only such callers,
 * which are the same user's.
 *
 *   listen -> a caller -> its question -> (SET) the gate -> the kernel's ranges, by us or by the
 * caller -> the answer -> listen
 *
 * New rules are read here first, so that a wrong text never gets to the gate. The gate takes them
 * at once for everything it decides; then the kernel's rule set follows. In between, what only the
 * new rules permit by address is refused still, and what only the old ones did is refused by the
 * gate.
 */

enum door_state { D_LISTEN, D_CALLER, D_GATE, D_RANGES };
enum { MSG_MAX = sizeof(struct door_ask) + DOOR_TEXT_MAX + 1 };

struct door {
	enum door_state state;
	struct gate *gate;
	struct inspect *inspect; /* NULL = none */
	bool told;		 /* it has `next` */
	bool stale;		 /* the kernel has other ranges than `rules` say */
	int dir_fd, listen_fd, caller_fd, rules_fd;
	char id[36];
	char *rules, *next;    /* in force; asked for */
	struct net_plan *plan; /* of `next` */
	uint32_t generation;
	uint8_t *msg; /* MSG_MAX of a caller */
};

int door_dir(bool make, int *ret_fd, struct err *e)
{
	return record_folder("egress", make, ret_fd, e);
}

bool door_addr(int dir_fd, const char *id, struct sockaddr_un *ret)
{
	size_t n = strlen(id);

	if (n == 0 || n > 35 || strspn(id, "abcdefghijklmnopqrstuvwxyz0123456789") != n)
		return false;
	*ret = (struct sockaddr_un){.sun_family = AF_UNIX};
	(void)snprintf(ret->sun_path, sizeof(ret->sun_path), "/proc/self/fd/%d/%s", dir_fd, id);
	return true;
}

void door_room(int fd)
{
	int room = DOOR_TEXT_MAX * 2;

	(void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
}

bool door_peer_good(int fd)
{
	struct ucred c;
	socklen_t n = sizeof(c);

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &c, &n) == 0 &&
	       (c.uid == geteuid() || c.uid == 0);
}

static bool is_root(int fd)
{
	struct ucred c = {.uid = (uid_t)-1};
	socklen_t n = sizeof(c);

	return fd >= 0 && getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &c, &n) == 0 && c.uid == 0;
}

static int listen_at(struct door *d, struct err *e)
{
	struct sockaddr_un a;
	mode_t old;
	int r;

	if (!door_addr(d->dir_fd, d->id, &a))
		return err_set(e, ERR_INVALID, EINVAL, "the gate's door: a strange id");
	d->listen_fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (d->listen_fd < 0)
		return err_set(e, ERR_INTERNAL, errno, "the gate's door: %s", strerror(errno));
	(void)unlinkat(d->dir_fd, d->id, 0);
	old = umask(0177);
	r = bind(d->listen_fd, (const struct sockaddr *)&a, sizeof(a)) < 0 ||
		    listen(d->listen_fd, 16) < 0
		? -errno
		: 0;
	(void)umask(old);
	return r < 0 ? err_set(e, ERR_DENIED, -r, "the gate's door: %s", strerror(-r)) : 0;
}

int door_open(const char *id, struct gate *g, struct inspect *i, const char *rules, int rules_fd,
	      struct door **ret, struct err *e)
{
	struct door *d = calloc(1, sizeof(*d));
	int r;

	if (d == NULL) {
		if (rules_fd >= 0)
			(void)close(rules_fd);
		return err_no_memory(e);
	}
	d->gate = g;
	d->inspect = i;
	d->dir_fd = d->listen_fd = d->caller_fd = -1;
	d->rules_fd = rules_fd;
	d->generation = 1;
	(void)snprintf(d->id, sizeof(d->id), "%s", id);
	d->rules = strdup(rules);
	r = d->rules == NULL ? err_no_memory(e)
			     : door_dir(true, &d->dir_fd, e);
	if (r == 0)
		r = listen_at(d, e);
	if (r < 0) {
		door_free(d);
		return r;
	}
	*ret = d;
	return 0;
}

static void forget_next(struct door *d)
{
	free(d->next);
	free(d->plan);
	free(d->msg);
	d->next = NULL;
	d->plan = NULL;
	d->msg = NULL;
}

void door_free(struct door *d)
{
	if (d == NULL)
		return;
	if (d->listen_fd >= 0)
		(void)unlinkat(d->dir_fd, d->id, 0);
	for (size_t i = 0; i < 4; i++) {
		int fd = (const int[]){d->dir_fd, d->listen_fd, d->caller_fd, d->rules_fd}[i];

		if (fd >= 0)
			(void)close(fd);
	}
	forget_next(d);
	free(d->rules);
	free(d);
}

int door_poll_fd(const struct door *d)
{
	switch (d->state) {
	case D_LISTEN:
		return d->listen_fd;
	case D_CALLER:
	case D_RANGES:
		return d->caller_fd;
	case D_GATE:
		break;
	}
	return -1;
}

/* ---- answers ---- */

static void answer(struct door *d, int err, const char *text)
{
	struct door_answer a = {
	    .err = (uint32_t)err, .generation = d->generation, .text_n = (uint32_t)strlen(text)};
	struct iovec iov[2] = {
	    {.iov_base = &a, .iov_len = sizeof(a)},
	    /* NOLINTNEXTLINE(performance-no-int-to-ptr): an iovec has no const */
	    {.iov_base = (void *)(uintptr_t)text, .iov_len = a.text_n}};
	struct msghdr m = {.msg_iov = iov, .msg_iovlen = 2};

	if (d->caller_fd >= 0) {
		(void)!sendmsg(d->caller_fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
		(void)close(steal_fd(&d->caller_fd));
	}
	forget_next(d);
	d->state = D_LISTEN;
}

/* The gate says itself why it cannot use a text, and writes it down. */
static void set(struct door *d, const char *text, size_t n)
{
	struct err e = ERR_INIT;
	int r;

	d->next = strndup(text, n);
	if (d->next == NULL || strlen(d->next) != n) {
		answer(d, EINVAL, "a zero byte among the rules");
		return;
	}
	r = plan_rules(text, n, d->inspect != NULL ? PLAN_HTTP : 0, &d->plan, &e);
	if (r == -ENOMEM || r == -E2BIG || r == -ENOTSUP || r == -EPERM) { /* what the gate would take */
		answer(d, -r, e.msg);
		return;
	}
	/* first who reads what a connection carries, then who permits the connection */
	d->told = d->plan != NULL && d->inspect != NULL;
	if (d->told && (r = inspect_policy(d->inspect, text, n, &e)) < 0) {
		answer(d, -r, e.msg);
		return;
	}
	r = gate_policy(d->gate, text, n, &e);
	if (r < 0)
		answer(d, -r, e.msg);
	else
		d->state = D_GATE;
}

/* Rules about names change nothing for the kernel, which a keeper that has become somebody else could not ask. */
static bool same_ranges(const struct door *d)
{
	struct net_plan *old = NULL;
	bool same = !d->stale && d->plan != NULL && plan_rules(d->rules, strlen(d->rules), PLAN_HTTP, &old, NULL) == 0 &&
		    old->first == d->plan->first;

	for (size_t i = 0; same && i < NET_WAYS; i++)
		same = old->batch_n[i] == d->plan->batch_n[i] &&
		       memcmp(old->batch[i], d->plan->batch[i], old->batch_n[i]) == 0;
	free(old);
	return same;
}

/* The rules are in force; whether the kernel has their ranges too is the rest of the answer. */
static void have_ranges(struct door *d, int r)
{
	d->stale = r != 0;
	answer(d, r < 0 ? -r : 0,
	       r < 0 ? "the rules are in force, but the kernel keeps the old address ranges: new ones are refused" : "");
}

/* We are nobody's root here: the caller, who is, gets what it needs to load them. */
static bool pass_ranges(struct door *d)
{
	struct door_answer a = {.generation = d->generation, .ranges = 1};
	union {
		char space[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} ctl = {{0}};
	struct iovec iov = {.iov_base = &a, .iov_len = sizeof(a)};
	struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = &ctl, .msg_controllen = sizeof(ctl)};

	ctl.align.cmsg_level = SOL_SOCKET;
	ctl.align.cmsg_type = SCM_RIGHTS;
	ctl.align.cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(&ctl.align), &d->rules_fd, sizeof(int));
	if (d->caller_fd < 0 || sendmsg(d->caller_fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
		return false;
	d->state = D_RANGES;
	return true;
}

void door_heard(struct door *d, enum gate_heard h, const char *why)
{
	struct err e = ERR_INIT;
	int r;

	if (d->state != D_GATE)
		return;
	if (h != GATE_TOOK_RULES) {
		if (d->told && inspect_policy(d->inspect, d->rules, strlen(d->rules), &e) < 0)
			why = e.msg;
		answer(d, EINVAL, why);
		return;
	}
	d->generation++;
	d->stale = !same_ranges(d);
	free(d->rules);
	d->rules = steal_ptr(&d->next);
	r = !d->stale ? 0 : d->plan != NULL ? net_replace(d->rules_fd, d->plan) : -EINVAL;
	if (r != -EPERM || !is_root(d->caller_fd) || !pass_ranges(d))
		have_ranges(d, r);
}

/* ---- questions ---- */

static void question(struct door *d)
{
	ssize_t n = recv(d->caller_fd, d->msg, MSG_MAX - 1, MSG_DONTWAIT);
	struct door_ask q;

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n < (ssize_t)sizeof(q)) {
		(void)close(steal_fd(&d->caller_fd));
		forget_next(d);
		d->state = D_LISTEN;
		return;
	}
	memcpy(&q, d->msg, sizeof(q));
	if (d->state == D_RANGES) {
		have_ranges(d, q.kind == DOOR_RANGES && q.text_n == 0 ? 0 : -EIO);
		return;
	}
	if (q.text_n != (size_t)n - sizeof(q) || q.text_n > DOOR_TEXT_MAX)
		answer(d, EPROTO, "a question of the wrong size");
	else if (q.kind == DOOR_SHOW)
		answer(d, 0, d->rules);
	else if (q.kind == DOOR_SET)
		set(d, (const char *)d->msg + sizeof(q), q.text_n);
	else
		answer(d, EPROTO, "an unknown question");
}

void door_ready(struct door *d)
{
	if (d->state == D_LISTEN) {
		/* cppcheck-suppress nullPointer ; nobody wants the address */
		d->caller_fd = accept4(d->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (d->caller_fd < 0)
			return;
		door_room(d->caller_fd);
		d->msg = malloc(MSG_MAX);
		if (d->msg == NULL) {
			answer(d, ENOMEM, "no memory");
			return;
		}
		if (!door_peer_good(d->caller_fd)) {
			/* what it said is taken, or its end would overtake the answer */
			(void)!recv(d->caller_fd, d->msg, MSG_MAX, MSG_DONTWAIT);
			answer(d, EPERM, "only the user who runs the sandbox, and root, may");
			return;
		}
		d->state = D_CALLER;
	}
	if (d->state == D_CALLER || d->state == D_RANGES)
		question(d);
}
