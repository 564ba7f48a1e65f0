#include "base/num.h"
#include "session/session_priv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/*
 * Theory of operation. One stream is one request. Towards the agent it has CHAN_IN, limited by the
 * credit the agent gives and by the session's queue; from the agent CHAN_OUT and CHAN_ERR, limited
 * by the credit we give: FRAME_WINDOW at first and back again only for bytes the consumer took, so
 * what is kept for a consumer that stalls never passes the window.
 *
 *      open -> [START] -> DATA, EOF per channel ... -> RESULT -> every byte taken -> result(), freed
 *
 * The stream stays in the table until result() has been called, so that a frame after its RESULT is
 * seen as what it is: a broken rule.
 *
 * All input comes from the agent, which is hostile. Only callbacks of the stream at hand run while
 * it is in use; it is freed in one place (finish), by the outermost caller.
 */

static const struct stream_ops no_ops;

static const struct stream_ops *ops_of(const struct stream *st)
{
	return st->ops != NULL ? st->ops : &no_ops;
}

static void stream_free(struct stream *st)
{
	struct session *s = st->s;

	*(st->prev != NULL ? &st->prev->next : &s->first) = st->next;
	*(st->next != NULL ? &st->next->prev : &s->last) = st->prev;
	s->slots[st->id % SESSION_STREAMS_MAX] = NULL;
	s->count--;
	for (int c = 0; c < CHAN_COUNT; c++)
		buf_done(&st->rx[c].kept);
	free(st);
}

void streams_free_all(struct session *s)
{
	while (s->first != NULL)
		stream_free(s->first);
}

/* ---- from the agent ---- */

/* Count bytes as taken and give them back as credit, in steps. */
static void taken(struct stream *st, uint8_t chan, size_t n)
{
	struct rx_chan *c = &st->rx[chan];

	c->due += (uint32_t)n;
	if (c->due < CREDIT_STEP || c->eof || c->broken || st->ended)
		return;
	tx_u32(st->s, FRAME_CREDIT, st->id, chan, c->due);
	c->credit += c->due;
	c->due = 0;
}

/* The consumer failed: tell the agent and drop what is there and what is on its way. */
static void break_chan(struct stream *st, uint8_t chan, int err)
{
	struct rx_chan *c = &st->rx[chan];

	c->broken = true;
	c->stalled = false;
	buf_done(&c->kept);
	if (!st->ended && !c->eof)
		tx_u32(st->s, FRAME_BROKEN, st->id, chan, (uint32_t)err);
}

/* Offer bytes to the consumer once; returns how many are settled (taken or dropped). */
static size_t offer(struct stream *st, uint8_t chan, const uint8_t *p, size_t n)
{
	struct rx_chan *c = &st->rx[chan];
	ssize_t r = (ssize_t)n;

	c->resumed = false;
	if (ops_of(st)->data != NULL)
		r = ops_of(st)->data(st->arg, st, chan, p, n);
	if (st->s->doomed)
		return n;
	if (r < 0) {
		break_chan(st, chan, (int)MIN(-r, (ssize_t)4095));
		return n;
	}
	if ((size_t)r > n)
		r = (ssize_t)n;
	if ((size_t)r < n) {
		c->stalled = !c->resumed;
		if (c->resumed) {
			st->resume_due = true;
			st->s->work = true;
		}
	}
	taken(st, chan, (size_t)r);
	return (size_t)r;
}

static void tell_eof(struct stream *st, uint8_t chan)
{
	struct rx_chan *c = &st->rx[chan];

	if (!c->eof || c->eof_told || c->broken || c->kept.len > 0)
		return;
	c->eof_told = true;
	if (ops_of(st)->eof != NULL)
		ops_of(st)->eof(st->arg, st, chan);
}

/* Offer what was kept. */
static void offer_kept(struct stream *st, uint8_t chan)
{
	struct rx_chan *c = &st->rx[chan];

	if (c->kept.len > 0 && !c->stalled) {
		size_t n = offer(st, chan, buf_head(&c->kept), c->kept.len);

		if (st->s->doomed)
			return;
		buf_consume(&c->kept, MIN(n, c->kept.len));
	}
	tell_eof(st, chan);
}

/* Call result() and free the stream when the request has ended and all bytes were taken. */
static void finish(struct stream *st)
{
	if (!st->ended || st->rx[CHAN_OUT].kept.len > 0 || st->rx[CHAN_ERR].kept.len > 0)
		return;
	if (ops_of(st)->result != NULL)
		ops_of(st)->result(st->arg, st, &st->result);
	if (!st->s->doomed)
		stream_free(st);
}

static int data_frame(struct stream *st, const struct frame *f)
{
	struct rx_chan *c = &st->rx[f->chan];
	size_t n = 0;

	if (f->chan != CHAN_OUT && f->chan != CHAN_ERR)
		return session_broken(st->s, "DATA on the wrong channel");
	if (c->eof)
		return session_broken(st->s, "DATA after EOF");
	if (f->len > c->credit)
		return session_broken(st->s, "DATA beyond its credit");
	c->credit -= f->len;
	if (c->broken)
		return 0;
	if (c->kept.len == 0 && !c->stalled)
		n = offer(st, f->chan, f->payload, f->len);
	if (n == f->len || st->s->doomed)
		return 0;
	return buf_put(&c->kept, f->payload + n, f->len - n);
}

static int eof_frame(struct stream *st, const struct frame *f)
{
	struct rx_chan *c = &st->rx[f->chan];

	if (f->chan != CHAN_OUT && f->chan != CHAN_ERR)
		return session_broken(st->s, "EOF on the wrong channel");
	if (c->eof)
		return session_broken(st->s, "EOF twice");
	c->eof = true;
	tell_eof(st, f->chan);
	return 0;
}

static void tell_writable(struct stream *st)
{
	if (!st->tx_waits || st->tx_credit == 0 || st->s->out.len >= TX_DATA_HIGH || st->tx_eof ||
	    st->tx_broken || st->ended)
		return;
	st->tx_waits = false;
	if (ops_of(st)->writable != NULL)
		ops_of(st)->writable(st->arg, st);
}

static int credit_frame(struct stream *st, const struct frame *f)
{
	uint32_t n = load_le32(f->payload);

	if (f->chan != CHAN_IN)
		return session_broken(st->s, "CREDIT on the wrong channel");
	if (n > FRAME_CREDIT_MAX || st->tx_credit > FRAME_CREDIT_MAX - n)
		return session_broken(st->s, "more CREDIT than allowed");
	st->tx_credit += n;
	tell_writable(st);
	return 0;
}

static int broken_frame(struct stream *st, const struct frame *f)
{
	uint32_t err = load_le32(f->payload);

	if (f->chan != CHAN_IN || st->tx_broken)
		return session_broken(st->s, "BROKEN on the wrong channel, or twice");
	if (err == 0 || err > 4095)
		return session_broken(st->s, "BROKEN without an error number");
	st->tx_broken = true;
	st->tx_waits = false;
	if (ops_of(st)->broken != NULL)
		ops_of(st)->broken(st->arg, st, (int)err);
	return 0;
}

static int start_frame(struct stream *st, const struct frame *f)
{
	if (st->started)
		return session_broken(st->s, "START twice");
	st->started = true;
	if (ops_of(st)->started != NULL)
		ops_of(st)->started(st->arg, st, load_le32(f->payload));
	return 0;
}

static int result_frame(struct stream *st, const struct frame *f)
{
	if (result_decode(f->payload, f->len, &st->result) < 0)
		return session_broken(st->s, "a malformed RESULT");
	st->ended = true;
	st->tx_waits = false;
	finish(st);
	return 0;
}

int stream_frame(struct session *s, const struct frame *f)
{
	struct stream *st = s->slots[f->stream % SESSION_STREAMS_MAX];

	if (st == NULL || st->id != f->stream)
		return session_broken(s, "a frame for a stream that is not open");
	if (st->ended)
		return session_broken(s, "a frame after RESULT");
	switch ((enum frame_type)f->type) {
	case FRAME_DATA:
		return data_frame(st, f);
	case FRAME_EOF:
		return eof_frame(st, f);
	case FRAME_CREDIT:
		return credit_frame(st, f);
	case FRAME_BROKEN:
		return broken_frame(st, f);
	case FRAME_START:
		return start_frame(st, f);
	case FRAME_RESULT:
		return result_frame(st, f);
	case FRAME_HELLO:
	case FRAME_OPEN:
	case FRAME_SIGNAL:
	case FRAME_RESIZE:
	case FRAME_RESET:
	case FRAME_PING:
	case FRAME_PONG:
		break;
	}
	return session_broken(s, "a frame of the wrong direction");
}

/* ---- callbacks that are owed ---- */

static void resume_all(struct stream *st)
{
	st->resume_due = false;
	offer_kept(st, CHAN_OUT);
	if (!st->s->doomed)
		offer_kept(st, CHAN_ERR);
}

/* Another stream comes first each time, so that none always gets the queue's room. */
static void rotate(struct session *s)
{
	struct stream *st = s->first;

	if (st == s->last)
		return;
	s->first = st->next;
	s->first->prev = NULL;
	s->last->next = st;
	st->prev = s->last;
	st->next = NULL;
	s->last = st;
}

void streams_pump(struct session *s)
{
	struct stream *next;

	s->work = false;
	rotate(s);
	for (struct stream *st = s->first; st != NULL; st = next) {
		if (st->resume_due)
			resume_all(st);
		if (!s->doomed)
			tell_writable(st);
		if (s->doomed)
			return;
		/* New streams are appended, none but this one can go. */
		next = st->next;
		finish(st);
		if (s->doomed)
			return;
	}
}

static void last_offer(struct stream *st, uint8_t chan)
{
	st->rx[chan].stalled = false;
	offer_kept(st, chan);
	buf_done(&st->rx[chan].kept);
}

void streams_end_all(struct session *s, int err, const char *text)
{
	struct stream *next;

	for (struct stream *st = s->first; st != NULL && !s->doomed; st = next) {
		if (!st->ended) {
			last_offer(st, CHAN_OUT);
			if (!s->doomed)
				last_offer(st, CHAN_ERR);
			st->ended = true;
			st->result = (struct stream_result){.how = HOW_ERROR, .err = err};
			memcpy(st->result.text, text,
			       MIN(strlen(text), sizeof(st->result.text) - 1));
		}
		if (s->doomed)
			return;
		next = st->next;
		finish(st);
	}
}

/* ---- from the caller ---- */

void stream_resume(struct stream *st, uint8_t chan)
{
	struct session *s = st->s;
	struct rx_chan *c;

	if (chan != CHAN_OUT && chan != CHAN_ERR)
		return;
	c = &st->rx[chan];
	c->resumed = true;
	if (!c->stalled)
		return;
	c->stalled = false;
	if (s->depth > 0) {
		st->resume_due = true;
		s->work = true;
		return;
	}
	session_enter(s);
	offer_kept(st, chan);
	if (!s->doomed)
		finish(st);
	if (!s->doomed && s->work)
		streams_pump(s);
	session_leave(s);
}

void stream_abandon(struct stream *st)
{
	struct session *s = st->s;

	st->ops = &no_ops;
	st->arg = NULL;
	session_enter(s); /* the stream may end here: not before both channels were seen to */
	stream_resume(st, CHAN_OUT);
	stream_resume(st, CHAN_ERR);
	if (s->depth == 1 && s->work && !s->doomed)
		streams_pump(s);
	session_leave(s);
}

uint32_t stream_id(const struct stream *st) { return st->id; }
