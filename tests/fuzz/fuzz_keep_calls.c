/*
 * A keeper between a hostile client and a hostile agent. The input: how many bytes are the client's (u16), those, then what the
 * agent answers, one portion for each request it gets: {u8 how, u16 n, n bytes of output}; further portions come as output of
 * requests that are open. The runner is none: what is asked of it fails.
 *
 * Whatever comes, the client reads pieces of wire/call.h in their order, and everything is let go at the end.
 */
#include "keep/code.h"
#include "keep/info.h"
#include "keep/priv.h"
#include "keep/proc.h"

#include "base/num.h"
#include "wire/frame.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

/* ---- the runner that is not there ---- */

uint32_t runner_weaker(const struct runner *r) { return r != NULL ? 0 : WEAKER_KILL; }
int runner_leaf(struct runner *r, uint32_t id, int *fd, struct err *e)
{
	*fd = -1;
	return r != NULL && id != 0 ? -EIO : err_set(e, ERR_UNSUPPORTED, EOPNOTSUPP, "no leaves");
}
static int gone(const struct runner *r, struct err *e) { return r != NULL ? -EIO : err_set(e, ERR_LOST, EPIPE, "gone"); }
int runner_leaf_kill(struct runner *r, uint32_t id, struct err *e) { return id != 0 ? gone(r, e) : -EIO; }
int runner_leaf_later(struct runner *r, uint32_t id, runner_told told, void *arg)
{
	return r != NULL && id != 0 && told != NULL && arg != NULL ? -EAGAIN : -EPIPE;
}
int runner_leaf_drop(struct runner *r, uint32_t id, runner_told told, void *arg) { return runner_leaf_later(r, id, told, arg); }
int runner_freeze(struct runner *r, bool on, struct err *e) { return on ? 0 : gone(r, e); }
int runner_deadline(struct runner *r, uint64_t ms, struct err *e) { return ms > 1000 ? 0 : gone(r, e); }
int runner_now(struct runner *r, struct runner_now *ret, struct err *e)
{
	*ret = (struct runner_now){.cpu_us = 5};
	return r != NULL ? gone(r, e) : 0;
}
void runner_kill(struct runner *r)
{
	if (r != NULL)
		abort();
}
const char *runner_weaker_text(enum runner_weaker bit) { return bit == WEAKER_KILL ? "no leaves" : ""; }
struct gate *runner_gate(struct runner *r) { return (struct gate *)(void *)r; }
struct inspect *runner_inspect(struct runner *r) { return (struct inspect *)(void *)r; }

/* ---- the agent ---- */

struct agent {
	int fd;
	const uint8_t *p;
	size_t n;
	struct buf in;
	uint32_t open[16]; /* ids of requests */
	uint32_t open_n;
};

static void say(const struct agent *a, enum frame_type type, uint32_t stream, uint8_t chan, const void *p, size_t n)
{
	struct buf b = {.max = FRAME_HDR + FRAME_MAX};

	if (frame_put(&b, type, stream, chan, 0, p, n) == 0)
		(void)!send(a->fd, buf_head(&b), b.len, MSG_NOSIGNAL | MSG_DONTWAIT);
	buf_done(&b);
}

static void result(const struct agent *a, uint32_t stream, uint8_t how)
{
	static const uint8_t errnos[] = {ENOENT, EEXIST, EACCES, ENOTDIR, EISDIR, ENOSPC, ESRCH, EPIPE};
	struct buf b = {.max = 256};
	struct msg_writer w = {.b = &b};

	msg_u64(&w, F_HOW, how & 3);
	if ((how & 3) == HOW_EXIT || (how & 3) == HOW_SIGNAL)
		msg_u64(&w, F_CODE, (how >> 3) % 20 + 1u);
	if ((how & 3) == HOW_ERROR)
		msg_u64(&w, F_ERRNO, errnos[(how >> 3) & 7]);
	if (w.err == 0)
		say(a, FRAME_RESULT, stream, 0, buf_head(&b), b.len);
	buf_done(&b);
}

/* The next portion, for this request; true: it is over. */
static bool portion(struct agent *a, uint32_t stream)
{
	uint8_t how = a->n > 0 ? a->p[0] : 0;
	size_t n = a->n >= 3 ? MIN((size_t)(a->p[1] | a->p[2] << 8), MIN(a->n - 3, (size_t)FRAME_MAX)) : 0;
	uint32_t pid = 7;

	if ((how & 4) != 0)
		say(a, FRAME_START, stream, 0, &pid, 4);
	if (n > 0)
		say(a, FRAME_DATA, stream, (how & 64) != 0 ? CHAN_ERR : CHAN_OUT, a->p + 3, n);
	a->p += MIN(a->n, n + 3);
	a->n -= MIN(a->n, n + 3);
	if ((how & 128) != 0)
		return false;
	result(a, stream, how);
	return true;
}

static void hear(struct agent *a)
{
	struct frame f;
	uint8_t *dst = buf_reserve(&a->in, FRAME_MAX);
	ssize_t got = dst != NULL ? recv(a->fd, dst, FRAME_MAX, MSG_DONTWAIT) : -1;
	int used;

	buf_commit(&a->in, got > 0 ? (size_t)got : 0);
	while ((used = frame_decode(buf_head(&a->in), a->in.len, FRAME_TO_AGENT, &f)) > 0) {
		if (f.type == FRAME_OPEN && (f.flags & FRAME_F_MORE) == 0 && !portion(a, f.stream) &&
		    a->open_n < ARRAY_LEN(a->open))
			a->open[a->open_n++] = f.stream;
		if (f.type == FRAME_RESET)
			for (uint32_t i = 0; i < a->open_n; i++)
				if (a->open[i] == f.stream) {
					result(a, f.stream, HOW_SIGNAL);
					a->open[i] = a->open[--a->open_n];
				}
		buf_consume(&a->in, (size_t)used);
	}
	if (used < 0)
		abort(); /* the keeper speaks the protocol */
	if (a->open_n > 0 && a->n > 0 && portion(a, a->open[0]))
		a->open[0] = a->open[--a->open_n];
}

static void hello(const struct agent *a)
{
	uint8_t h[HELLO_LEN];

	hello_encode(h, 0);
	say(a, FRAME_HELLO, 0, 0, h, sizeof(h));
}

/* ---- the client ---- */

struct client {
	int fd;
	struct buf in;
	bool head, end;
};

static void read_answer(struct client *c)
{
	struct call_piece piece;
	struct call_head h;
	uint8_t *dst = buf_reserve(&c->in, 65536);
	ssize_t got = dst != NULL ? recv(c->fd, dst, 65536, MSG_DONTWAIT) : -1;
	int used;

	buf_commit(&c->in, got > 0 ? (size_t)got : 0);
	while ((used = call_next(buf_head(&c->in), c->in.len, &piece)) > 0) {
		if (c->end || (piece.kind == CALL_RESPONSE) == c->head || piece.kind == CALL_REQUEST)
			abort();
		if (piece.kind == CALL_RESPONSE && call_head(&piece, &h) < 0)
			abort();
		c->head = true;
		c->end = piece.kind == CALL_END;
		buf_consume(&c->in, (size_t)used);
	}
	if (used < 0)
		abort();
}

/* ---- the keeper ---- */

static void turn(struct keep *k, struct agent *a, struct client *c)
{
	struct pollfd p = {.fd = k->agent.fd, .events = session_events(k->session)};

	k->loop.again = true;
	loop_turn(&k->loop, 0);
	hear(a);
	if (!k->dead && poll(&p, 1, 0) > 0 && session_io(k->session, p.revents, NULL) < 0)
		k->dead = true;
	timer_run(&k->timers, k->loop.now_ms);
	talk_turn(k);
	read_answer(c);
}

static void unready(struct source *s, uint32_t events)
{
	(void)s;
	(void)events;
}

static void begin(struct keep *k, int agent_fd)
{
	static const char passwd[] = "root:x:0:0::/root:/bin/sh\nuser:x:1000:1000::/home/user:/bin/bash\n";

	json_object_seed(1);
	k->env = json_object();
	if (k->env == NULL || loop_open(&k->loop) < 0 || session_new(agent_fd, false, &k->session) < 0)
		abort();
	k->agent = (struct source){.ready = unready, .fd = agent_fd};
	buf_init(&k->passwd, 4096);
	if (loop_watch(&k->loop, &k->agent) < 0 || buf_put(&k->passwd, passwd, sizeof(passwd) - 1) < 0 || code_begin(k) < 0)
		abort();
	k->passwd_ms = k->loop.now_ms;
	samples_begin(k);
}

static void finish(struct keep *k)
{
	talk_cut_all(k);
	samples_done(k);
	code_done(k);
	procs_done(k);
	watchers_done(k);
	exec_done(k);
	users_done(k);
	session_free(k->session);
	loop_close(&k->loop);
	json_decref(k->env);
	outside_close(k);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	static struct spec spec;
	static struct keep_args args = {.spec = &spec, .template = "base", .listen_fd = -1, .end_fd = -1, .interp_fd = -1};
	struct keep k = {.a = &args, .loop = {.epoll_fd = -1}, .signals = {.fd = -1}};
	struct agent a = {.in = {.max = 8 << 20}};
	struct client c = {.in = {.max = 1 << 20}};
	int agent[2], call[2];
	size_t ask = n >= 2 ? MIN((size_t)(p[0] | p[1] << 8), n - 2) : 0;

	if (n < 2)
		return 0;
	if (args.interp_fd < 0) {
		spec_init(&spec);
		spec_new_id(&spec);
		args.interp_fd = memfd_create("interp", MFD_CLOEXEC);
		if (write(args.interp_fd, "\x7f""ELF", 4) != 4)
			abort();
	}
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, agent) < 0 ||
	    socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, call) < 0)
		abort();
	a.fd = agent[1];
	a.p = p + 2 + ask;
	a.n = n - 2 - ask;
	c.fd = call[1];
	begin(&k, agent[0]);
	hello(&a);
	talk_open(&k, call[0]);
	p += 2;
	for (int i = 0; i < 12 || (i < 60 && (ask > 0 || a.n > 0)); i++) {
		ssize_t sent = ask > 0 ? send(call[1], p, ask, MSG_NOSIGNAL) : 0;

		p += MAX(sent, 0);
		ask -= (size_t)MAX(sent, 0);
		turn(&k, &a, &c);
		if (k.dead)
			break;
	}
	if (!k.dead) {
		info_sample(&k); /* as when its time has come */
		turn(&k, &a, &c);
		turn(&k, &a, &c);
	}
	(void)close(call[1]);
	for (int i = 0; i < 3; i++) {
		loop_turn(&k.loop, 0);
		talk_turn(&k);
	}
	finish(&k);
	buf_done(&a.in);
	buf_done(&c.in);
	(void)close(agent[0]);
	(void)close(agent[1]);
	return 0;
}
