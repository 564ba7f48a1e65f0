#include "guest/agent.h"

#include "base/num.h"

#include <errno.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/*
 * Theory of operation. Fed by the host, which may be taken over or simply wrong: each frame is
 * decoded by frame_decode, and what does not fit the state of its stream ends the connection (and with
 * it the sandbox). Exception: frames for a stream that is not open are dropped, since the host may have sent
 * them before it saw our RESULT.
 *
 * A request may come in fragments (OPEN with FRAME_F_MORE); only one stream at a time may be in that
 * state. Its descriptors travel with its first fragment and are taken when it is complete.
 */

uint64_t agent_now(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

struct job *agent_job(const struct agent *a, uint32_t id)
{
	for (uint32_t i = 0; i < a->jobs_n; i++) {
		if (a->jobs[i]->id == id)
			return a->jobs[i];
	}
	return NULL;
}

static void close_all(const int *fds, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		(void)close(fds[i]);
}

/* A stream that cannot even get a job is answered at once. */
static void refuse(struct agent *a, uint32_t id, const struct ask *q, int err, const char *text)
{
	struct job *j = job_new(id, q);

	if (j == NULL) {
		a->peer.broken = true;
		return;
	}
	j->start_ns = agent_now();
	job_end_error(j, err, text);
	(void)job_settle(&a->peer, j, j->start_ns);
	job_free(j);
}

static int open_request(struct agent *a, uint32_t id, uint16_t flags, const void *msg, size_t n)
{
	int fds[PEER_FDS_MAX];
	struct ask q;
	struct job *j;
	uint32_t nfds;

	if (ask_parse(msg, n, &q) < 0)
		return -EPROTO;
	nfds = ask_fds(&q);
	if ((nfds > 0) != ((flags & FRAME_F_FDS) != 0) || peer_take_fds(&a->peer, fds, nfds) < 0)
		return -EPROTO;
	if (a->jobs_n == AGENT_JOBS_MAX || a->shutdown_id != 0) {
		close_all(fds, nfds);
		if (a->shutdown_id != 0)
			refuse(a, id, &q, ESHUTDOWN, "the sandbox is ending");
		else
			refuse(a, id, &q, EMFILE, "too many open streams");
		return 0;
	}
	j = job_new(id, &q);
	if (j == NULL) {
		close_all(fds, nfds);
		return -ENOMEM;
	}
	a->jobs[a->jobs_n++] = j;
	j->start_ns = agent_now();
	a->ops->start(a, j, &q, fds);
	return 0;
}

static int on_open(struct agent *a, const struct frame *f)
{
	struct peer *p = &a->peer;
	int r;

	if (p->open_stream != 0 ? p->open_stream != f->stream || (f->flags & FRAME_F_FDS)
				: agent_job(a, f->stream) != NULL)
		return -EPROTO;
	if (p->open_stream == 0 && !(f->flags & FRAME_F_MORE))
		return open_request(a, f->stream, f->flags, f->payload, f->len);
	if (p->open_stream == 0)
		p->open_flags = f->flags;
	p->open_stream = f->stream;
	if (buf_put(&p->open, f->payload, f->len) < 0)
		return -EPROTO;
	if (f->flags & FRAME_F_MORE)
		return 0;
	r = open_request(a, f->stream, p->open_flags, buf_head(&p->open), p->open.len);
	p->open_stream = 0;
	buf_consume(&p->open, p->open.len);
	return r;
}

static int on_hello(struct agent *a, const struct frame *f)
{
	uint32_t features;

	if (a->peer.greeted || hello_decode(f->payload, f->len, &features) < 0)
		return -EPROTO;
	a->peer.greeted = true;
	return 0;
}

static int on_signal(struct agent *a, struct job *j, uint32_t sig)
{
	if (sig < 1 || sig > 64)
		return -EPROTO;
	if (!j->ended)
		a->ops->signal(a, j, (int)sig);
	return 0;
}

static int on_stream_frame(struct agent *a, struct job *j, const struct frame *f)
{
	switch (f->type) {
	case FRAME_DATA:
		return f->chan == CHAN_IN ? job_data(&a->peer, j, f->payload, f->len) : -EPROTO;
	case FRAME_EOF:
		if (f->chan != CHAN_IN || j->in.eof)
			return -EPROTO;
		job_eof(j, &a->peer);
		return 0;
	case FRAME_CREDIT:
		return job_credit(j, f->chan, load_le32(f->payload));
	case FRAME_BROKEN:
		job_broken(j, &a->peer, f->chan);
		return 0;
	case FRAME_SIGNAL:
		return on_signal(a, j, load_le32(f->payload));
	case FRAME_RESIZE:
		if (!j->ended)
			a->ops->resize(a, j, load_le16(f->payload), load_le16(f->payload + 2));
		return 0;
	case FRAME_RESET:
		if (!j->ended)
			a->ops->reset(a, j);
		return 0;
	default:
		return -EPROTO;
	}
}

static int on_frame(struct agent *a, const struct frame *f)
{
	struct job *j;

	if (f->type == FRAME_HELLO)
		return on_hello(a, f);
	if (!a->peer.greeted)
		return -EPROTO;
	if (f->type == FRAME_OPEN)
		return on_open(a, f);
	if (f->type == FRAME_PING) {
		peer_send(&a->peer, FRAME_PONG, 0, 0, f->payload, f->len);
		return 0;
	}
	if (f->type == FRAME_PONG)
		return 0;
	j = agent_job(a, f->stream);
	return j == NULL ? 0 : on_stream_frame(a, j, f);
}

int agent_dispatch(struct agent *a)
{
	struct peer *p = &a->peer;

	while (p->in.len > 0 && p->out.len <= PEER_OUT_PAUSE) {
		struct frame f;
		int used = frame_decode(buf_head(&p->in), p->in.len, FRAME_TO_AGENT, &f);
		int r;

		if (used < 0)
			return -EPROTO;
		if (used == 0) {
			p->chunk = FRAME_HDR + FRAME_MAX;
			break;
		}
		r = on_frame(a, &f);
		if (r < 0)
			return r;
		if (p->broken)
			return -EPROTO;
		buf_consume(&p->in, (size_t)used);
	}
	p->held = p->out.len > PEER_OUT_PAUSE && p->in.len > 0;
	return 0;
}

/* With `last` the SHUTDOWN stream, without it all others. */
static void settle(struct agent *a, bool last)
{
	uint64_t now = 0;

	for (uint32_t i = 0; i < a->jobs_n;) {
		struct job *j = a->jobs[i];

		if (now == 0 && j->ended)
			now = agent_now();
		if (last != (j->id == a->shutdown_id) || !job_settle(&a->peer, j, now)) {
			i++;
			continue;
		}
		a->jobs[i] = a->jobs[--a->jobs_n];
		if (j->guarded && j->pid > 0) { /* its background processes live on */
			j->next = a->guards;
			a->guards = j;
		} else {
			job_free(j);
		}
	}
}

void agent_settle(struct agent *a)
{
	settle(a, false);
	if (a->shutdown_id != 0)
		settle(a, true);
}
