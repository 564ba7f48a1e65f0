#include "base/num.h"
#include "core/refused.h"
#include "keep/priv.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

/*
 * What may leave: the sandbox's gate, its reader of HTTP, and the door through which its rules are replaced. Records
 * of the gate are kept, the newest OUTSIDE_LOG bytes of them, for whoever asks (/control/records); somebody has to take
 * them out of the gate's pipe in any case. A sandbox whose gate or reader has died, or whose rules say so, is ended.
 */

enum { OUTSIDE_LOG = 256 * 1024, CHUNK = 16 * 1024, LAST_RECORDS_MS = 500 };

static struct keep *keep_of(struct source *s, size_t off)
{
	return (struct keep *)(void *)((char *)s - off);
}

static bool readable(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	return fd >= 0 && poll(&p, 1, 0) > 0;
}

/* The door shows another descriptor in each of its states, and tells of one caller at a time. */
static void door_turn(struct keep *k)
{
	struct source *s = &k->outside.door;
	int fd, r;

	if (k->a->door == NULL)
		return;
	while (readable(door_poll_fd(k->a->door)))
		door_ready(k->a->door);
	fd = door_poll_fd(k->a->door);
	if (fd < 0)
		return;
	s->fd = fd;
	r = loop_watch(&k->loop, s);
	if (r < 0 && r != -EEXIST)
		runner_kill(k->a->runner); /* rules could not be taken back any more */
}

static void on_door(struct source *s, uint32_t events)
{
	(void)events;
	door_turn(keep_of(s, offsetof(struct keep, outside.door)));
}

static void on_gate(struct source *s, uint32_t events)
{
	struct keep *k = keep_of(s, offsetof(struct keep, outside.gate));
	char why[256] = "";
	enum gate_heard h;

	(void)events;
	while ((h = gate_hear(runner_gate(k->a->runner), why, sizeof(why))) != GATE_NOTHING) {
		if (h == GATE_TOOK_RULES || h == GATE_KEPT_RULES) {
			if (k->a->door != NULL)
				door_heard(k->a->door, h, why);
			continue;
		}
		runner_kill(k->a->runner);
		if (h != GATE_WANTS_KILL) {
			loop_unwatch(&k->loop, s);
			break;
		}
	}
	door_turn(k);
}

static void on_inspect(struct source *s, uint32_t events)
{
	struct keep *k = keep_of(s, offsetof(struct keep, outside.inspect));

	(void)events;
	if (readable(s->fd) && inspect_lost(runner_inspect(k->a->runner))) {
		loop_unwatch(&k->loop, s);
		runner_kill(k->a->runner);
	}
}

/* Room for n bytes more, by whole lines from the front. */
static void make_room(struct buf *b, size_t n)
{
	while (b->len > 0 && buf_room(b) < n) {
		const uint8_t *p = buf_head(b), *nl = memchr(p, '\n', b->len);

		buf_consume(b, nl != NULL ? (size_t)(nl - p) + 1 : b->len);
	}
}

/* Of the n bytes more at the log's end, and what was unread before. */
static void count(struct outside *o, size_t n)
{
	const char *p, *nl;

	o->unread = MIN(o->unread + n, o->log.len);
	while (o->unread > 0) {
		p = (const char *)buf_head(&o->log) + o->log.len - o->unread;
		nl = memchr(p, '\n', o->unread);
		if (nl == NULL)
			return;
		json_t *record = json_loadb(p, (size_t)(nl - p), JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);

		o->refused += refused_by_record(record);
		json_decref(record);
		o->unread -= (size_t)(nl - p) + 1;
	}
}

/* 0 = the gate writes no more. */
static ssize_t take_records(struct outside *o)
{
	uint8_t *at;
	ssize_t n = 1;

	while (n > 0) {
		make_room(&o->log, CHUNK);
		at = buf_reserve(&o->log, CHUNK);
		n = at != NULL ? read(o->records.fd, at, CHUNK) : -1;
		if (n > 0) {
			buf_commit(&o->log, (size_t)n);
			count(o, (size_t)n);
		} else if (n < 0 && at != NULL && errno == EINTR) {
			n = 1;
		}
	}
	return n;
}

static void on_records(struct source *s, uint32_t events)
{
	(void)events;
	(void)take_records(&keep_of(s, offsetof(struct keep, outside.records))->outside);
}

void outside_last(struct keep *k)
{
	struct pollfd p = {.fd = k->outside.records.fd, .events = POLLIN};
	uint64_t until = loop_clock_ms() + LAST_RECORDS_MS, now;

	if (k->outside.records.ready == NULL)
		return;
	gate_detach(runner_gate(k->a->runner));
	while ((now = loop_clock_ms()) < until && (poll(&p, 1, (int)(until - now)) >= 0 || errno == EINTR))
		if (p.revents != 0 && take_records(&k->outside) == 0)
			return;
}

static int watch(struct keep *k, struct source *s, int fd, void (*ready)(struct source *, uint32_t))
{
	*s = (struct source){.ready = ready, .fd = fd};
	return loop_watch(&k->loop, s);
}

int outside_open(struct keep *k)
{
	const struct gate *g = runner_gate(k->a->runner);
	const struct inspect *i = runner_inspect(k->a->runner);
	int r;

	buf_init(&k->outside.log, OUTSIDE_LOG);
	k->outside.door = (struct source){.ready = on_door, .fd = -1};
	if (g == NULL)
		return 0; /* nothing may leave */
	r = watch(k, &k->outside.gate, g->ctl_fd, on_gate);
	if (r == 0)
		r = watch(k, &k->outside.records, g->rec_fd, on_records);
	if (r == 0 && i != NULL)
		r = watch(k, &k->outside.inspect, i->ctl_fd, on_inspect);
	door_turn(k);
	return r;
}

void outside_close(struct keep *k) { buf_done(&k->outside.log); }

void control_denied(struct talk *t, json_t *req)
{
	(void)req;
	talk_json(t, 200, json_pack("{s:I}", "denied", (json_int_t)t->k->outside.refused));
}

void control_records(struct talk *t, json_t *req)
{
	const struct buf *log = &t->k->outside.log;
	struct buf copy;

	(void)req;
	buf_init(&copy, OUTSIDE_LOG);
	if (log->len > 0 && buf_put(&copy, buf_head(log), log->len) < 0)
		fail_status(t, 500, "out of memory");
	else
		talk_answer(t, 200, "application/x-ndjson", &copy);
	buf_done(&copy);
}
