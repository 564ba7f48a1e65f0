#include "keep/keep.h"

#include "base/heap.h"
#include "base/num.h"
#include "keep/code.h"
#include "keep/priv.h"
#include "keep/proc.h"
#include "keep/text.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

/*
 * The keeper's loop. Each turn: events set flags; the agent's stream is read and written (callbacks
 * of jobs queue answers); timers; then every talk that has something to do (talk_turn).
 *
 * The agent is hostile: session/ checks all it says, and the death of the session is the sandbox's
 * end. brigd is hostile too: its pieces and heads are checked by wire/call.c.
 */

enum { LAST_MS = 1000 }; /* for those who wait for the end to take their answer */

static struct keep *keep_of(struct source *s, size_t off)
{
	return (struct keep *)(void *)((char *)s - off);
}

static void on_agent(struct source *s, uint32_t events)
{
	struct keep *k = keep_of(s, offsetof(struct keep, agent));

	k->agent_ready = (short)events; /* poll(2) has the same bits */
}

static void on_runner(struct source *s, uint32_t events)
{
	struct keep *k = keep_of(s, offsetof(struct keep, runner));

	(void)events;
	if (runner_handle(k->a->runner) == RUNNER_ENDED)
		k->dead = true;
}

static void on_signal(struct source *s, uint32_t events)
{
	struct keep *k = keep_of(s, offsetof(struct keep, signals));
	struct signalfd_siginfo si;

	(void)events;
	while (read(s->fd, &si, sizeof(si)) == (ssize_t)sizeof(si))
		runner_kill(k->a->runner);
}

static bool may_call(const struct keep *k, int fd)
{
	struct ucred who;
	socklen_t n = sizeof(who);

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &n) == 0 &&
	       (who.uid == 0 || who.uid == geteuid() || who.uid == k->a->client_uid);
}

static void on_listen(struct source *s, uint32_t events)
{
	struct keep *k = keep_of(s, offsetof(struct keep, listen));
	int fd;

	(void)events;
	/* cppcheck-suppress nullPointer ; nobody wants the address */
	while ((fd = accept4(k->a->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0) {
		if (may_call(k, fd))
			talk_open(k, fd);
		else
			(void)close(fd);
	}
}

/* Level-triggered: what one session_io leaves is there in the next turn. */
static void agent_watch(struct keep *k)
{
	short wanted = session_events(k->session);

	if (wanted == k->agent_watched)
		return;
	k->agent_watched = wanted;
	if (loop_change(&k->loop, &k->agent, (uint32_t)wanted) < 0)
		k->dead = true;
}

static void agent_turn(struct keep *k)
{
	short revents = k->agent_ready;

	k->agent_ready = 0;
	if (revents != 0 && !k->dead && session_io(k->session, revents, NULL) < 0)
		k->dead = true;
}

static void turn(struct keep *k)
{
	agent_watch(k);
	k->loop.again = k->work;
	loop_turn(&k->loop, timer_wait(&k->timers, loop_clock_ms()));
	agent_turn(k);
	timer_run(&k->timers, k->loop.now_ms);
	talk_turn(k);
}

/* ---- begin and end ---- */

static int watch(struct keep *k, struct source *s, int fd, void (*ready)(struct source *, uint32_t))
{
	*s = (struct source){.ready = ready, .fd = fd};
	return fd < 0 ? -EBADF : loop_watch(&k->loop, s);
}

static int begin(struct keep *k)
{
	sigset_t set;
	size_t seed;
	int r;

	heap_settle();
	/* jansson would open a file for its seed, which a locked-in process cannot */
	if (getrandom(&seed, sizeof(seed), 0) == (ssize_t)sizeof(seed))
		json_object_seed(seed != 0 ? seed : 1);
	k->env = json_object();
	if (k->env == NULL)
		return -ENOMEM;
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGPIPE);
	(void)sigprocmask(SIG_BLOCK, &set, NULL);
	sigdelset(&set, SIGPIPE);
	r = loop_open(&k->loop);
	if (r == 0)
		r = session_new(runner_agent_fd(k->a->runner), true, &k->session);
	if (r == 0)
		r = watch(k, &k->listen, k->a->listen_fd, on_listen);
	if (r == 0) {
		k->agent = (struct source){.ready = on_agent, .fd = runner_agent_fd(k->a->runner)};
		r = loop_watch_for(&k->loop, &k->agent, (uint32_t)k->agent_watched);
	}
	if (r == 0)
		r = watch(k, &k->runner, runner_event_fd(k->a->runner), on_runner);
	if (r == 0)
		r = watch(k, &k->signals, signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK),
			  on_signal);
	if (r == 0)
		r = outside_open(k);
	if (r == 0)
		r = code_begin(k);
	if (r == 0)
		samples_begin(k);
	return r;
}

static const char *how_word(const struct runner_end *e)
{
	return e->lost ? "lost" : e->timed_out ? "timeout" : e->killed ? "killed" : "exit";
}

static json_t *end_json(const struct runner_end *e, uint64_t refused)
{
	return json_pack("{s:s, s:I, s:I, s:I, s:i, s:i, s:I}", "how", how_word(e), "memory_peak",
			 (json_int_t)e->memory_peak, "cpu_us", (json_int_t)e->cpu_us, "wall_us",
			 (json_int_t)e->wall_us, "oom_kills", (int)e->oom_kills, "pids_denied",
			 (int)e->pids_denied, "denied", (json_int_t)refused);
}

static int write_end(const struct keep *k, json_t *o)
{
	struct buf b;
	int r;

	buf_init(&b, SIZE_MAX / 2);
	r = text_put_value(&b, json_incref(o));
	if (r == 0)
		r = text_put(&b, "\n");
	if (r == 0 && k->a->end_fd >= 0)
		r = write(k->a->end_fd, buf_head(&b), b.len) == (ssize_t)b.len ? 0 : -EIO;
	buf_done(&b);
	return r;
}

static bool anybody_waits(const struct keep *k)
{
	for (const struct talk *t = k->talks; t != NULL; t = t->next)
		if (t->waits)
			return true;
	return false;
}

/* Those who asked to wait get their answer, all others a cut. */
static void tell_waiting(struct keep *k, json_t *o)
{
	uint64_t until = loop_clock_ms() + LAST_MS;

	for (struct talk *t = k->talks; t != NULL; t = t->next) {
		if (t->waits)
			talk_json(t, 200, json_incref(o));
		else
			talk_cut(t);
	}
	while (anybody_waits(k) && loop_clock_ms() < until) {
		talk_turn(k);
		k->loop.again = k->work;
		loop_turn(&k->loop, 100);
	}
	talk_cut_all(k);
}

static int end(struct keep *k)
{
	struct runner_end e;
	json_t *o;
	int r;

	loop_unwatch(&k->loop, &k->listen);
	loop_unwatch(&k->loop, &k->agent);
	runner_kill(k->a->runner);
	runner_wait(k->a->runner, &e);
	outside_last(k);
	o = end_json(&e, k->outside.refused);
	r = write_end(k, o);
	tell_waiting(k, o);
	json_decref(o);
	return r;
}

int keep_main(const struct keep_args *a)
{
	struct keep k = {.a = a, .loop = {.epoll_fd = -1}, .signals = {.fd = -1}};
	int r = begin(&k);

	if (r == 0) {
		while (!k.dead)
			turn(&k);
		r = end(&k);
	}
	samples_done(&k);
	code_done(&k);
	procs_done(&k);
	watchers_done(&k);
	exec_done(&k);
	users_done(&k);
	session_free(k.session);
	runner_free(a->runner);
	loop_drop(&k.signals);
	loop_close(&k.loop);
	json_decref(k.env);
	outside_close(&k);
	return r < 0;
}
