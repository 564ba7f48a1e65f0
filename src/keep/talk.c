#include "keep/talk.h"

#include "base/num.h"
#include "keep/priv.h"
#include "keep/text.h"
#include "sys/send.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

/*
 * Fed by brigd, which passes on what clients write: pieces are checked by wire/call.c, and a
 * connection that breaks their order is cut. One talk does at most ROUNDS steps in a turn, so that
 * a fast one does not starve the others.
 */

enum { IN_MAX = 2 * (CALL_HEADER + CALL_PIECE_MAX), SLACK = 2 * CALL_PIECE_MAX, ROUNDS = 8, FIRST_READ = 4096,
       INPUT = EPOLLIN | EPOLLRDHUP };

static void dirty(struct talk *t)
{
	t->dirty = true;
	t->k->work = true;
}

/* ---- for jobs ---- */

void talk_reply(struct talk *t, unsigned status, const struct call_field *f, uint32_t n)
{
	/* browsers: what a token protects may be read by any page that has it */
	static const struct call_field cors[] = {{"access-control-allow-origin", "*"},
						 {"access-control-expose-headers", "*"}};
	struct call_field all[CALL_FIELDS_MAX];

	if (t->head_sent || t->cut)
		return;
	t->head_sent = true;
	if (n + ARRAY_LEN(cors) <= CALL_FIELDS_MAX && route_is_client(t)) {
		memcpy(all, f, n * sizeof(*f));
		memcpy(all + n, cors, sizeof(cors));
		f = all;
		n += ARRAY_LEN(cors);
	}
	if (call_put_response(&t->out, status, f, n) < 0)
		t->cut = true;
	dirty(t);
}

void talk_hold(struct talk *t) { t->held = true; }

size_t talk_room(struct talk *t)
{
	if (t->ended || t->cut)
		return 0;
	if (t->out.len < TALK_OUT)
		return TALK_OUT - t->out.len;
	t->wants_room = true;
	return 0;
}

void talk_send(struct talk *t, const void *p, size_t n)
{
	const uint8_t *b = p;

	t->held = false;
	if (t->ended || t->cut)
		return;
	while (n > 0) {
		size_t part = MIN(n, (size_t)CALL_PIECE_MAX);

		if (call_put(&t->out, CALL_BODY, b, part) < 0) {
			t->cut = true;
			break;
		}
		b += part;
		n -= part;
	}
	if (t->out.len >= TALK_OUT)
		t->wants_room = true;
	dirty(t);
}

void talk_end(struct talk *t)
{
	t->held = false;
	t->ended = true;
	t->stalled = false; /* what is left of the request is thrown away */
	dirty(t);
}

void talk_cut(struct talk *t)
{
	t->cut = true;
	dirty(t);
}

void talk_resume(struct talk *t)
{
	t->stalled = false;
	dirty(t);
}

void talk_answer(struct talk *t, unsigned status, const char *type, struct buf *b)
{
	char length[24];
	const struct call_field f[] = {{"content-type", type}, {"content-length", length}};

	(void)snprintf(length, sizeof(length), "%zu", b->len);
	talk_reply(t, status, f, 2);
	t->rest = *b;
	*b = (struct buf){.max = b->max};
	talk_end(t);
}

void talk_json(struct talk *t, unsigned status, json_t *o)
{
	struct buf b;

	buf_init(&b, SIZE_MAX / 2);
	if (text_put_value(&b, o) < 0)
		talk_cut(t);
	else
		talk_answer(t, status, "application/json", &b);
	buf_done(&b);
}

void talk_status(struct talk *t, unsigned status)
{
	static const struct call_field f[] = {{"content-length", "0"}};

	talk_reply(t, status, f, status == 204 || status == 304 ? 0 : 1);
	talk_end(t);
}

void talk_detach(struct talk *t)
{
	t->ops = NULL;
	t->arg = NULL;
	talk_resume(t);
}

/* ---- input ---- */

static void take_head(struct talk *t, const struct call_piece *c)
{
	struct call_piece mine = {.kind = c->kind, .n = c->n};

	t->head_bytes = malloc((size_t)c->n + 1);
	if (t->head_bytes == NULL || t->route != NULL || c->kind != CALL_REQUEST) {
		t->cut = true;
		return;
	}
	memcpy(t->head_bytes, c->p, c->n);
	mine.p = t->head_bytes;
	if (call_head(&mine, &t->head) < 0)
		t->cut = true;
	else
		route_talk(t);
}

/* False: the job does not take all of it now. */
static bool take_body(struct talk *t, const struct call_piece *c)
{
	const uint8_t *p = c->p + t->piece_off;
	size_t n = c->n - t->piece_off, took = n;

	if (n > 0 && t->ops != NULL && t->ops->data != NULL && !t->ended) {
		t->stalled = true; /* unless the job says otherwise inside */
		took = t->ops->data(t, p, n);
		if (took >= n)
			t->stalled = false;
	}
	t->piece_off += MIN(took, n);
	return t->piece_off == c->n;
}

/* One piece of the input; false when there is none to be had. */
static bool take_piece(struct talk *t)
{
	struct call_piece c;
	int used = call_next(buf_head(&t->in), t->in.len, &c);

	if (used == 0 || t->stalled)
		return false;
	if (used < 0 || t->body_ended || c.kind == CALL_RESPONSE ||
	    (c.kind == CALL_REQUEST) != (t->head_bytes == NULL)) {
		t->cut = true;
		return false;
	}
	if (c.kind == CALL_REQUEST) {
		take_head(t, &c);
	} else if (c.kind == CALL_BODY) {
		if (!take_body(t, &c))
			return false;
		t->piece_off = 0;
	} else {
		t->body_ended = true;
		if (t->ops != NULL && t->ops->end != NULL && !t->ended)
			t->ops->end(t);
	}
	buf_consume(&t->in, (size_t)used);
	return !t->cut;
}

static void read_some(struct talk *t)
{
	while (t->readable && !t->gone) {
		size_t want = MIN(buf_room(&t->in), (size_t)CALL_PIECE_MAX);
		uint8_t *p;
		ssize_t n;

		if (t->in.cap <= FIRST_READ && t->in.len < FIRST_READ)
			want = MIN(want, FIRST_READ - t->in.len); /* most calls are short */
		p = want > 0 ? buf_reserve(&t->in, want) : NULL;
		if (p == NULL)
			return;
		n = recv(t->src.fd, p, want, MSG_DONTWAIT);
		if (n > 0) {
			buf_commit(&t->in, (size_t)n);
			continue;
		}
		t->readable = false;
		if (n == 0 && t->body_ended)
			return;	       /* its side is through; ours may go on */
		t->src_ended = n == 0; /* what is there may still end the body */
		t->gone = n < 0 && errno != EAGAIN && errno != EINTR;
	}
}

/* ---- output ---- */

static void feed(struct talk *t)
{
	while (t->rest.len > 0 && t->out.len < TALK_OUT && !t->cut) {
		size_t n = MIN(t->rest.len, (size_t)CALL_PIECE_MAX);

		if (call_put(&t->out, CALL_BODY, buf_head(&t->rest), n) < 0)
			t->cut = true;
		else
			buf_consume(&t->rest, n);
	}
	if (t->ended && t->rest.len == 0 && !t->end_queued && !t->cut) {
		t->end_queued = true;
		if (call_put(&t->out, CALL_END, NULL, 0) < 0)
			t->cut = true;
	}
}

static void flush(struct talk *t)
{
	bool waits;

	if (t->held)
		return;
	if (!t->gone && buf_send(&t->out, t->src.fd) < 0)
		t->gone = true;
	waits = t->out.len > 0 && !t->gone;
	if (waits == t->wants_output)
		return;
	t->wants_output = waits;
	if (loop_change(&t->k->loop, &t->src, INPUT | (waits ? (uint32_t)EPOLLOUT : 0u) | EPOLLET) < 0)
		t->gone = true;
}

/* With bytes unread our close would reach the other side before the answer does (unix(7) says
 * nothing; the kernel reports ECONNRESET first), so what still comes is thrown away until it ends.
 */
static bool over(const struct talk *t)
{
	return t->gone || t->cut ||
	       (t->end_queued && t->out.len == 0 && (t->body_ended || t->src_ended));
}

static void step(struct talk *t)
{
	t->dirty = false;
	read_some(t);
	while (!t->gone && take_piece(t))
		;
	if (t->src_ended && !t->body_ended && !t->stalled && !t->ended)
		t->gone = true; /* cut */
	feed(t);
	flush(t);
	if (t->wants_room && t->out.len < TALK_OUT / 2 && !over(t)) {
		t->wants_room = false;
		if (t->ops != NULL && t->ops->writable != NULL)
			t->ops->writable(t);
	}
	if ((t->readable && buf_room(&t->in) > 0) || (t->rest.len > 0 && t->out.len == 0))
		dirty(t);
}

/* ---- connections ---- */

static void on_ready(struct source *s, uint32_t events)
{
	struct talk *t = (struct talk *)s;

	if ((events & (EPOLLHUP | EPOLLERR)) != 0)
		t->gone = true;
	if ((events & (EPOLLIN | EPOLLRDHUP)) != 0)
		t->readable = true;
	dirty(t);
}

void talk_open(struct keep *k, int fd)
{
	struct talk *t = k->talks_n < TALKS_MAX ? calloc(1, sizeof(*t)) : NULL;

	if (t == NULL) {
		(void)close(fd);
		return;
	}
	t->src = (struct source){.ready = on_ready, .fd = fd};
	t->k = k;
	buf_init(&t->in, IN_MAX);
	buf_init(&t->out, TALK_OUT + SLACK);
	if (loop_watch_for(&k->loop, &t->src, INPUT | EPOLLET) < 0) {
		(void)close(fd);
		free(t);
		return;
	}
	t->next = k->talks;
	if (k->talks != NULL)
		k->talks->prev = t;
	k->talks = t;
	k->talks_n++;
}

static void destroy(struct talk *t)
{
	struct keep *k = t->k;

	if (t->ops != NULL && t->ops->closed != NULL)
		t->ops->closed(t);
	route_done(t);
	*(t->prev != NULL ? &t->prev->next : &k->talks) = t->next;
	if (t->next != NULL)
		t->next->prev = t->prev;
	k->talks_n--;
	loop_drop(&t->src);
	buf_done(&t->in);
	buf_done(&t->out);
	buf_done(&t->rest);
	free(t->head_bytes);
	loop_free_later(&k->loop, t);
}

void talk_turn(struct keep *k)
{
	for (int i = 0; i < ROUNDS && k->work; i++) {
		k->work = false;
		for (struct talk *t = k->talks, *next; t != NULL; t = next) {
			next = t->next;
			if (!t->dirty)
				continue;
			step(t);
			if (over(t))
				destroy(t);
		}
	}
}

void talk_cut_all(struct keep *k)
{
	while (k->talks != NULL) {
		k->talks->cut = true;
		destroy(k->talks);
	}
}
