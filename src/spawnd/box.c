#include "spawnd/priv.h"
/*
 * The table of sandboxes, and what happens to them:
 *
 *   QUEUED -> STARTING -> LIVE -> OVER -> forgotten
 *
 * So many start at once as there is use for; the others wait. A start's child says in its pipe how that went, and is then
 * the sandbox's keeper. It ends when the sandbox has, and what it wrote about it stays in the end file until somebody
 * says FORGET. Files of a sandbox in the folder:
 *
 *   <id>.box    who and which process; locked (flock(2)) by the keeper as long as it lives
 *   <id>.sock   where it takes calls
 *   <id>.end    how it ended: one line, empty while it lives and when its keeper was killed
 */
#include "base/cleanup.h"
#include "base/num.h"
#include "spawn/door.h"
#include "spawn/record.h"
#include "sys/call.h"
#include "sys/file.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SWEEP_AGAIN_MS = 500 };

const char *box_file(const char *id, const char *suffix, char dst[BOX_FILE_MAX])
{
	(void)snprintf(dst, BOX_FILE_MAX, "%s%s", id, suffix);
	return dst;
}

ssize_t box_read_end(const struct server *s, const char *id, char dst[SPAWND_END_MAX + 1])
{
	char name[BOX_FILE_MAX];
	ssize_t n = file_get(s->a->box_fd, box_file(id, ".end", name), dst, SPAWND_END_MAX + 1);

	while (n > 0 && dst[n - 1] == '\n')
		dst[--n] = '\0';
	return n;
}

struct box *box_find(struct server *s, const char *id)
{
	for (struct box *b = s->boxes; b != NULL; b = b->next)
		if (strcmp(b->id, id) == 0)
			return b;
	return NULL;
}

struct box *box_new(struct server *s, const char *id)
{
	struct box *b = calloc(1, sizeof(*b));

	if (b == NULL)
		return NULL;
	*b = (struct box){.keeper = {.fd = -1}, .report = {.fd = -1}, .s = s, .next = s->boxes};
	(void)snprintf(b->id, sizeof(b->id), "%s", id);
	s->boxes = b;
	return b;
}

static void no_ask(struct box *b)
{
	if (b->ask == NULL)
		return;
	b->s->queued--;
	b->s->queued_text -= b->ask->text_n;
	free(b->ask);
	b->ask = NULL;
}

void box_drop(struct box *b)
{
	struct box **p = &b->s->boxes;

	while (*p != b)
		p = &(*p)->next;
	*p = b->next;
	if (b->state == BOX_OVER)
		b->s->overs--;
	no_ask(b);
	loop_drop(&b->keeper);
	loop_drop(&b->report);
	loop_free_later(&b->s->loop, b);
}

/* ---- ends ---- */

/* Whatever dead keepers and runners left, now and some times more: what was killed takes its moment to be gone. */
static void sweep_soon(struct server *s)
{
	s->sweep_ms = loop_clock_ms();
	s->sweeps = SWEEPS;
}

static void limit_overs(struct server *s)
{
	struct box *oldest = NULL;
	char name[BOX_FILE_MAX];

	if (s->overs <= OVERS_MAX)
		return;
	for (struct box *b = s->boxes; b != NULL; b = b->next)
		if (b->state == BOX_OVER && (oldest == NULL || b->time_ms <= oldest->time_ms))
			oldest = b;
	if (oldest == NULL)
		return;
	(void)unlinkat(s->a->box_fd, box_file(oldest->id, ".end", name), 0);
	box_drop(oldest);
}

static void tell_end(struct server *s, const struct box *b)
{
	struct spawnd_tell t = {.kind = SPAWND_ENDED};
	char text[SPAWND_END_MAX + 1];
	ssize_t n = box_read_end(s, b->id, text);

	/* its keeper was killed, perhaps with its runner, or outlived its runner and could remove nothing itself */
	if (n <= 0 || strstr(text, "\"how\":\"lost\"") != NULL)
		sweep_soon(s);
	t.text_n = n > 0 ? (uint32_t)n : 0;
	memcpy(t.id, b->id, sizeof(t.id));
	conn_tell(s, NULL, &t, text);
}

/* The start has failed, as *e says. */
static void start_failed(struct box *b, int r, const struct err *e)
{
	conn_reply(b->s, &b->starter, r, e);
	b->failed = true;
}

/* ---- starts ---- */

static void started(struct box *b, const struct outcome *o)
{
	struct spawnd_tell t = {.kind = SPAWND_REPLY, .seq = b->starter.seq, .value = o->weaker, .pid = b->pid,
				.time_ms = b->time_ms};

	b->state = BOX_LIVE;
	b->due_ms = 0;
	b->s->starting--;
	memcpy(t.id, b->id, sizeof(t.id));
	conn_tell(b->s, &b->starter, &t, NULL);
	if (b->kill)
		box_kill(b);
}

static void on_report(struct source *src, uint32_t events)
{
	struct box *b = (struct box *)(void *)((char *)src - offsetof(struct box, report));
	struct outcome o = {.ret = 0};
	ssize_t n = read(src->fd, &o, sizeof(o));
	struct err e = ERR_INIT;

	(void)events;
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	loop_drop(src);
	if (n != (ssize_t)sizeof(o))
		return; /* it died: its pidfd says so too */
	o.why[sizeof(o.why) - 1] = '\0';
	if (o.ret == 0)
		started(b, &o);
	else
		start_failed(b, err_set(&e, (enum err_kind)o.fault, -o.ret, "%s", o.why), &e);
}

/* The keeper is gone: a box of which nobody was told is forgotten, one that lived is over. */
static void ended(struct box *b)
{
	struct server *s = b->s;
	struct err e = ERR_INIT;
	char name[BOX_FILE_MAX];

	if (b->report.fd >= 0)
		on_report(&b->report, 0); /* what it said before */
	if (b->ours)
		(void)waitpid(b->pid, NULL, WNOHANG);
	loop_drop(&b->keeper);
	loop_drop(&b->report);
	(void)unlinkat(s->a->box_fd, box_file(b->id, ".sock", name), 0);
	(void)unlinkat(s->a->box_fd, box_file(b->id, ".box", name), 0);
	door_remove(b->id);
	s->alive--;
	if (b->state == BOX_STARTING) {
		s->starting--;
		if (!b->failed)
			start_failed(b, err_set(&e, ERR_LOST, EPIPE, "the sandbox ended while it started"), &e);
		(void)unlinkat(s->a->box_fd, box_file(b->id, ".end", name), 0);
		sweep_soon(s);
		box_drop(b);
		return;
	}
	b->state = BOX_OVER;
	b->due_ms = 0;
	s->overs++;
	tell_end(s, b);
	limit_overs(s);
}

static void on_keeper(struct source *src, uint32_t events)
{
	if ((events & EPOLLIN) != 0)
		ended((struct box *)(void *)src);
}

int box_watch(struct box *b, int pidfd, int report_fd)
{
	int r;

	b->keeper = (struct source){.ready = on_keeper, .fd = pidfd};
	b->report = (struct source){.ready = on_report, .fd = report_fd};
	r = loop_watch(&b->s->loop, &b->keeper);
	return r == 0 && report_fd >= 0 ? loop_watch(&b->s->loop, &b->report) : r;
}

/* In the child: the keeper, from here to its end. */
static _Noreturn void be_keeper(const struct box *b, int report_fd)
{
	_exit(keeper_run(b->s, b->ask, (const char *)(b->ask + 1), report_fd));
}

static int fork_keeper(struct box *b, struct err *e)
{
	_cleanup_close_ int near_fd = -1, far_fd = -1, pidfd = -1;
	int p[2], r;
	pid_t pid;

	if (pipe2(p, O_CLOEXEC | O_NONBLOCK) < 0)
		return err_set(e, ERR_INTERNAL, errno, "starting a keeper: %s", strerror(errno));
	near_fd = p[0];
	far_fd = p[1];
	pid = fork();
	if (pid == 0)
		be_keeper(b, far_fd);
	if (pid < 0)
		return err_set(e, ERR_INTERNAL, errno, "starting a keeper: %s", strerror(errno));
	b->pid = pid;
	b->ours = true;
	pidfd = sys_pidfd_open(pid);
	r = pidfd < 0 ? pidfd : box_watch(b, steal_fd(&pidfd), steal_fd(&near_fd));
	if (r < 0) { /* nobody would see its end */
		(void)kill(pid, SIGKILL);
		(void)waitpid(pid, NULL, 0);
		return err_set(e, ERR_INTERNAL, -r, "starting a keeper: %s", strerror(-r));
	}
	return 0;
}

static void begin(struct box *b)
{
	struct server *s = b->s;
	struct err e = ERR_INIT;
	int r = fork_keeper(b, &e);

	if (r < 0) {
		s->alive--;
		start_failed(b, r, &e);
		box_drop(b);
		return;
	}
	no_ask(b);
	b->state = BOX_STARTING;
	b->due_ms = loop_clock_ms() + READY_MS;
	s->starting++;
}

static struct box *next_queued(struct server *s)
{
	struct box *first = NULL; /* the list has the newest first */

	for (struct box *b = s->boxes; b != NULL; b = b->next)
		if (b->state == BOX_QUEUED)
			first = b;
	return first;
}

/* ---- kills, and what is due ---- */

void box_kill(struct box *b)
{
	struct server *s = b->s;
	struct err e = ERR_INIT;

	if (b->state == BOX_QUEUED) {
		s->alive--;
		start_failed(b, err_set(&e, ERR_CONFLICT, ECANCELED, "the sandbox was ended before it started"), &e);
		box_drop(b);
		return;
	}
	b->kill = true; /* one that starts is ended as soon as it may be */
	if (b->state != BOX_LIVE || b->due_ms != 0)
		return;
	(void)sys_pidfd_send_signal(b->keeper.fd, SIGTERM);
	b->due_ms = loop_clock_ms() + TERM_MS;
}

/* It did not start, or did not end, in its time. Its runner sees it die and removes the sandbox. */
static void force(struct box *b)
{
	b->due_ms = 0;
	(void)sys_pidfd_send_signal(b->keeper.fd, SIGKILL);
}

void box_turn(struct server *s)
{
	uint64_t now = loop_clock_ms();
	struct box *next;

	for (struct box *b = s->boxes; b != NULL; b = next) {
		next = b->next;
		if (b->due_ms != 0 && now >= b->due_ms)
			force(b);
	}
	while (s->queued > 0 && s->starting < s->starting_max)
		begin(next_queued(s));
	if (s->sweep_ms != 0 && now >= s->sweep_ms) {
		(void)record_sweep(0);
		s->sweeps--;
		s->sweep_ms = s->sweeps > 0 ? now + SWEEP_AGAIN_MS : 0;
	}
}

int box_wait_ms(const struct server *s)
{
	uint64_t now = loop_clock_ms(), at = s->sweep_ms != 0 ? s->sweep_ms : UINT64_MAX;

	for (const struct box *b = s->boxes; b != NULL; b = b->next)
		if (b->due_ms != 0)
			at = MIN(at, b->due_ms);
	if (at == UINT64_MAX)
		return -1;
	return at <= now ? 0 : (int)MIN(at - now, 60000ull);
}
