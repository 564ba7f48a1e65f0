#include "guest/job.h"

#include "base/cleanup.h"
#include "base/num.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

/*
 * Fed from two sides, both hostile: frames of the host, and bytes from programs in the sandbox. A
 * program's bytes are never looked at. The host is held to its window; what a program does not read
 * waits in `pend`, at most FRAME_WINDOW bytes for each job.
 *
 * Ending: a program that exits may leave children that still hold its pipes. What is in the pipe
 * at that moment (FIONREAD) was written before the exit and is delivered; later bytes of others are
 * not waited for. A terminal ends when nobody has it open any more, which background jobs can put off: ended.c
 * sets the time for that, and then it is read until nothing waits in it.
 */

enum { FIRST_READ = 2048 };

/* One is kept: its page would be given back with it, and be fetched again for the next. */
static struct job *spare;

struct job *job_new(uint32_t id, const struct ask *q)
{
	struct job *j = spare != NULL ? steal_ptr(&spare) : malloc(sizeof(*j));

	if (j == NULL)
		return NULL;
	memset(j, 0, sizeof(*j));
	j->id = id;
	j->kind = q->kind;
	j->flags = q->flags;
	j->in.fd = -1;
	j->status_fd = j->conn_fd = -1;
	window_init(&j->in.win);
	buf_init(&j->in.pend, FRAME_WINDOW);
	for (int i = 0; i < 2; i++)
		j->out[i] = (struct job_out){.fd = -1, .credit = FRAME_WINDOW, .drain = -1};
	return j;
}

static void shut(int *fd)
{
	if (*fd >= 0)
		(void)close(steal_fd(fd));
}

void job_free(struct job *j)
{
	shut(&j->in.fd);
	shut(&j->out[0].fd);
	shut(&j->out[1].fd);
	shut(&j->status_fd);
	shut(&j->conn_fd);
	buf_done(&j->in.pend);
	if (spare == NULL)
		spare = j;
	else
		free(j);
}

void job_in_gone(struct peer *p, struct job *j, int err)
{
	shut(&j->in.fd);
	buf_done(&j->in.pend);
	if (!j->in.told && !j->in.eof)
		peer_send_u32(p, FRAME_BROKEN, j->id, CHAN_IN, (uint32_t)err);
	j->in.told = true;
}

/* All bytes are written and no more will come. */
static void in_finish(struct job *j)
{
	static const char veof = 4; /* what the end of input is to a terminal in its default mode */

	switch (j->medium) {
	case JOB_TTY:
		if (write(j->in.fd, &veof, 1) < 0 && errno == EAGAIN)
			return;
		break;
	case JOB_SOCKET:
		(void)shutdown(j->in.fd, SHUT_WR);
		break;
	case JOB_PIPES: break;
	}
	shut(&j->in.fd);
}

static ssize_t put(const struct job *j, const void *data, size_t n)
{
	if (j->medium == JOB_SOCKET)
		return send(j->in.fd, data, n, MSG_DONTWAIT | MSG_NOSIGNAL);
	return write(j->in.fd, data, n);
}

static void grant(struct peer *p, struct job *j, size_t n)
{
	uint32_t g = window_give(&j->in.win, (uint32_t)n);

	if (g > 0 && !j->in.eof)
		peer_send_u32(p, FRAME_CREDIT, j->id, CHAN_IN, g);
}

void job_write_in(struct peer *p, struct job *j)
{
	struct buf *b = &j->in.pend;

	if (j->in.fd < 0 || j->connecting)
		return;
	while (b->len > 0) {
		ssize_t n = put(j, buf_head(b), b->len);

		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		if (n <= 0) {
			job_in_gone(p, j, n < 0 && errno != EIO ? errno : EPIPE);
			return;
		}
		buf_consume(b, (size_t)n);
		grant(p, j, (size_t)n);
	}
	if (j->in.eof)
		in_finish(j);
}

int job_data(struct peer *p, struct job *j, const uint8_t *data, uint32_t n)
{
	ssize_t done = 0;

	if (j->in.eof || window_take(&j->in.win, n) < 0)
		return -EPROTO;
	if (j->in.fd < 0) {
		if (!j->connecting)
			job_in_gone(p, j, EPIPE);
		return 0;
	}
	if (j->in.pend.len == 0 && !j->connecting) {
		done = put(j, data, n);
		if (done < 0 && errno != EAGAIN && errno != EINTR) {
			job_in_gone(p, j, errno != EIO ? errno : EPIPE);
			return 0;
		}
		done = MAX(done, 0);
		grant(p, j, (size_t)done);
	}
	/* cannot fail for lack of room: the window is what pend may hold */
	if (buf_put(&j->in.pend, data + done, n - (size_t)done) < 0)
		job_in_gone(p, j, ENOMEM);
	return 0;
}

void job_eof(struct job *j, struct peer *p)
{
	j->in.eof = true;
	job_write_in(p, j);
}

int job_credit(struct job *j, uint8_t chan, uint32_t n)
{
	if (chan == CHAN_IN)
		return -EPROTO;
	return credit_add(&j->out[chan - 1].credit, n);
}

static void out_finish(struct peer *p, struct job *j, uint8_t chan)
{
	struct job_out *o = &j->out[chan - 1];

	shut(&o->fd);
	if (o->open)
		peer_send(p, FRAME_EOF, j->id, chan, NULL, 0);
	o->open = false;
}

void job_broken(struct job *j, struct peer *p, uint8_t chan)
{
	if (chan != CHAN_IN)
		out_finish(p, j, chan);
}

void job_read_out(struct peer *p, struct job *j, uint8_t chan)
{
	struct job_out *o = &j->out[chan - 1];
	/* most programs say little, and a large buffer is a mapping made and removed for it */
	size_t want = MIN(o->credit, o->much ? (uint32_t)FRAME_MAX : (uint32_t)FIRST_READ);
	uint8_t *dst;
	ssize_t n;

	if (o->fd < 0)
		return;
	if (o->drain >= 0 && want > (uint64_t)o->drain)
		want = (size_t)o->drain;
	if (o->drain == 0) {
		out_finish(p, j, chan);
		return;
	}
	if (want == 0 || p->out.len > PEER_OUT_SOFT)
		return;
	dst = buf_reserve(&p->out, FRAME_HDR + want);
	if (dst == NULL)
		return;
	n = read(o->fd, dst + FRAME_HDR, want);
	if (n < 0 && (errno == EINTR || (errno == EAGAIN && o->drain < 0)))
		return;
	if (n < 0 && errno == EIO && j->medium == JOB_TTY && !j->ended) {
		/* the program closed its terminal, perhaps on its way out; closing ours would hang it up */
		o->parked = true;
		return;
	}
	if (n <= 0) {
		/* a reset port is an end too, and nobody is left to read what the host still sends */
		if (n < 0 && j->medium == JOB_SOCKET)
			job_in_gone(p, j, errno);
		out_finish(p, j, chan);
		return;
	}
	o->much = (size_t)n == want;
	frame_header(dst, FRAME_DATA, j->id, chan, 0, (uint32_t)n);
	buf_commit(&p->out, FRAME_HDR + (size_t)n);
	o->credit -= (uint32_t)n;
	if (o->drain > 0) {
		o->drain -= n;
		if (o->drain == 0)
			out_finish(p, j, chan);
	}
}

static void start_drain(struct job *j)
{
	j->ended = true;
	shut(&j->in.fd);
	for (int i = 0; i < 2; i++) {
		int waiting = 0;

		j->out[i].parked = false;
		if (j->out[i].fd < 0 || j->medium != JOB_PIPES)
			continue;
		if (ioctl(j->out[i].fd, FIONREAD, &waiting) == 0)
			j->out[i].drain = waiting;
	}
}

void job_end_error(struct job *j, int err, const char *text)
{
	size_t n = strnlen(text, sizeof(j->end.text) - 1);

	if (j->ended)
		return;
	j->end.how = HOW_ERROR;
	j->end.err = err > 0 && err <= 4095 ? err : EIO;
	memcpy(j->end.text, text, n);
	j->end.text[n] = '\0';
	start_drain(j);
}

void job_end_wait(struct job *j, int st, uint64_t utime_us, uint64_t stime_us, uint64_t maxrss_kib)
{
	if (j->ended)
		return;
	j->end.how = WIFSIGNALED(st) ? HOW_SIGNAL : HOW_EXIT;
	j->end.code = (uint32_t)(WIFSIGNALED(st) ? WTERMSIG(st) : WEXITSTATUS(st));
	j->end.utime_us = utime_us;
	j->end.stime_us = stime_us;
	j->end.maxrss_kib = maxrss_kib;
	start_drain(j);
}

void job_end_done(struct job *j)
{
	if (j->ended)
		return;
	j->end.how = HOW_DONE;
	start_drain(j);
}

int job_result(const struct job *j, uint64_t now_ns, struct buf *b)
{
	const struct job_end *e = &j->end;
	struct msg_writer w = {.b = b};

	msg_u64(&w, F_HOW, e->how);
	if (e->how == HOW_ERROR) {
		msg_u64(&w, F_ERRNO, (uint64_t)e->err);
		msg_str(&w, F_TEXT, e->text);
	} else if (e->how != HOW_DONE) {
		msg_u64(&w, F_CODE, e->code);
		msg_u64(&w, F_UTIME, e->utime_us);
		msg_u64(&w, F_STIME, e->stime_us);
		msg_u64(&w, F_MAXRSS, e->maxrss_kib);
	}
	msg_u64(&w, F_WALL, (now_ns - j->start_ns) / 1000);
	return w.err;
}

static void send_result(struct peer *p, const struct job *j, uint64_t now_ns)
{
	struct buf b;

	buf_init(&b, 2048);
	if (job_result(j, now_ns, &b) < 0)
		p->broken = true;
	else
		peer_send(p, FRAME_RESULT, j->id, 0, buf_head(&b), b.len);
	buf_done(&b);
}

bool job_settle(struct peer *p, struct job *j, uint64_t now_ns)
{
	/* a port is done when both directions are */
	if (j->medium == JOB_SOCKET && j->in.fd < 0 && j->out[0].fd < 0)
		job_end_done(j);
	if (!j->ended || j->sweeping || j->closed)
		return false;
	for (uint8_t chan = CHAN_OUT; chan <= (uint8_t)CHAN_ERR; chan++) {
		if (j->out[chan - 1].fd >= 0 && j->out[chan - 1].drain == 0)
			out_finish(p, j, chan);
		if (j->out[chan - 1].fd >= 0)
			return false;
	}
	send_result(p, j, now_ns);
	j->closed = true;
	return true;
}
