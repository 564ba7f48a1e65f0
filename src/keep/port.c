#include "keep/port.h"
#include "base/num.h"
#include "keep/priv.h"
#include "keep/query.h"
#include "wire/frame.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * /port/N/...: HTTP to 127.0.0.1:N inside, over a PORT request of the agent, one connection for
 * each call. The request is written anew from the call's head; its body goes on by its length if
 * the client gave one, in chunks otherwise. The answer is port_answer.c's.
 *
 * With a field "upgrade" the program is asked to switch to another protocol (WebSocket). If it
 * does, the bodies of the call are what both sides say, as it is, until either ends.
 *
 * Memory: one piece of the body, PORT_IN bytes of the answer.
 */

static void port_free(struct talk *t)
{
	struct port *p = t->arg;

	t->ops = NULL;
	t->arg = NULL;
	timer_clear(&t->k->timers, &p->look);
	if (p->s != NULL) {
		stream_reset(p->s);
		stream_abandon(p->s);
	}
	buf_done(&p->up);
	buf_done(&p->in);
	free(p);
}

void port_refuse(struct port *p, const char *why)
{
	struct talk *t = p->t;
	uint32_t nr = p->nr;

	port_free(t);
	if (t->head_sent)
		talk_cut(t);
	else
		talk_json(t, 502,
			  json_pack("{s:s, s:s, s:i, s:i}", "sandboxId", t->k->a->spec->id,
				    "message", why, "port", (int)nr, "code", 502));
}

void port_done(struct port *p)
{
	struct talk *t = p->t;

	port_free(t);
	talk_end(t);
}

/* ---- the request ---- */

static bool passes(const char *name)
{
	static const char *const not [] = {"host", "content-length", "expect"};

	for (size_t i = 0; i < ARRAY_LEN(not ); i++)
		if (strcmp(name, not [i]) == 0)
			return false;
	return !http_hop(http_text(name)) && strncmp(name, "proxy-", 6) != 0;
}

static int put(struct buf *b, const char *s) { return buf_put(b, s, strlen(s)); }

static int put_field(struct buf *b, const char *name, const char *value)
{
	return http_put_field(b, http_text(name), http_text(value));
}

/* body: something of it is there. */
static int put_head(struct port *p, bool body)
{
	const struct call_head *h = &p->t->head;
	char host[32];
	int r = put(&p->up, h->method);

	(void)snprintf(host, sizeof(host), "localhost:%u", p->nr);
	if (r == 0)
		r = put(&p->up, *p->target == '/' ? " " : " /");
	if (r == 0)
		r = put(&p->up, p->target);
	if (r == 0)
		r = put(&p->up, " HTTP/1.1\r\n");
	if (r == 0)
		r = put_field(&p->up, "host", host);
	if (r == 0)
		r = put_field(&p->up, "connection", p->upgrade != NULL ? "upgrade" : "close");
	if (r == 0 && p->upgrade != NULL)
		r = put_field(&p->up, "upgrade", p->upgrade);
	for (uint32_t i = 0; r == 0 && i < h->fields_n; i++)
		if (passes(h->field[i].name))
			r = put_field(&p->up, h->field[i].name, h->field[i].value);
	if (r == 0 && p->has_length)
		r = put_field(&p->up, "content-length", call_find(h, "content-length"));
	else if (r == 0 && body)
		r = put_field(&p->up, "transfer-encoding", "chunked");
	else if (r == 0 && strcmp(h->method, "GET") != 0 && strcmp(h->method, "HEAD") != 0)
		r = put_field(&p->up, "content-length", "0");
	p->head_put = true;
	return r == 0 ? put(&p->up, "\r\n") : r;
}

/* False: the agent does not take all now. */
static bool flush(struct port *p)
{
	while (p->up.len > 0 && p->s != NULL) {
		ssize_t n = stream_write(p->s, buf_head(&p->up), p->up.len);

		if (n == 0)
			return false;
		buf_consume(&p->up, n > 0 ? (size_t)n
					  : p->up.len); /* it reads no more, and may answer still */
	}
	if (p->switched && p->body_ended && p->s != NULL) {
		p->body_ended = false; /* told */
		stream_eof(p->s);
	}
	return true;
}

void port_switched(struct port *p)
{
	(void)flush(p);
	talk_resume(p->t);
}

static size_t on_body(struct talk *t, const void *b, size_t n)
{
	struct port *p = t->arg;
	size_t part = MIN(n, (size_t)CALL_PIECE_MAX);
	char size[24];
	int r = p->head_put ? 0 : put_head(p, true);

	if (p->upgrade != NULL && p->answered && !p->switched)
		return n; /* it stayed with HTTP, and this is for nobody */
	if (r == 0 && (!flush(p) || (p->upgrade != NULL && !p->switched)))
		return 0;
	if (p->switched) {
		if (buf_put(&p->up, b, part) < 0)
			port_refuse(p, "");
		else
			(void)flush(p);
		return part;
	}
	if (p->has_length && part > p->length) {
		port_refuse(p, "The request has more bytes than it said");
		return n;
	}
	(void)snprintf(size, sizeof(size), "%zx\r\n", part);
	if (r == 0 && !p->has_length)
		r = put(&p->up, size);
	if (r == 0)
		r = buf_put(&p->up, b, part);
	if (r == 0 && !p->has_length)
		r = put(&p->up, "\r\n");
	if (r < 0) {
		port_refuse(p, "The request's head is too large");
		return n;
	}
	p->length -= p->has_length ? part : 0;
	(void)flush(p);
	return part;
}

static void on_body_end(struct talk *t)
{
	struct port *p = t->arg;
	bool any = p->head_put;
	int r = any ? 0 : put_head(p, false);

	p->body_ended = true;
	if (p->upgrade !=
	    NULL) { /* the client says no more; what the program says still goes to it */
		(void)flush(p);
		return;
	}

	if (r == 0 && any && !p->has_length)
		r = put(&p->up, "0\r\n\r\n");
	if (r < 0 || (p->has_length && p->length != 0))
		port_refuse(p, "The request has fewer bytes than it said");
	else
		(void)flush(p);
}

static void on_room(struct talk *t) { port_answer((struct port *)t->arg); }

static const struct talk_ops talk_ops = {
    .data = on_body, .end = on_body_end, .writable = on_room, .closed = port_free};

/* ---- the connection ---- */

static void on_writable(void *arg, struct stream *s)
{
	struct port *p = arg;

	(void)s;
	if (flush(p))
		talk_resume(p->t);
}

static ssize_t on_data(void *arg, struct stream *s, uint8_t chan, const void *b, size_t n)
{
	struct port *p = arg;
	size_t part = MIN(n, buf_room(&p->in));

	(void)s;
	if (chan != CHAN_OUT)
		return (ssize_t)n;
	if (part == 0)
		return 0;
	if (buf_put(&p->in, b, part) < 0)
		return -ENOMEM;
	/* looked at when this is over: the answer's end lets go of the stream */
	timer_set(&p->t->k->timers, &p->look, 1);
	return (ssize_t)part;
}

static void on_look(struct timer *tm)
{
	port_answer((struct port *)((char *)tm - offsetof(struct port, look)));
}

static void on_eof(void *arg, struct stream *s, uint8_t chan)
{
	struct port *p = arg;

	(void)s;
	if (chan != CHAN_OUT)
		return;
	p->eof = true;
	timer_set(&p->t->k->timers, &p->look, 1);
}

static void on_result(void *arg, struct stream *s, const struct stream_result *r)
{
	struct port *p = arg;

	(void)s;
	p->s = NULL;
	if (keep_lost(p->t->k))
		return;
	p->eof = true;
	p->refused = r->how == HOW_ERROR && (r->err == ECONNREFUSED || r->err == EADDRNOTAVAIL);
	timer_set(&p->t->k->timers, &p->look, 1);
}

static const struct stream_ops stream_ops = {
    .data = on_data, .eof = on_eof, .writable = on_writable, .result = on_result};

/* ---- begin ---- */

/* N of the target, and what follows it. False: it is no port. */
static bool port_of(const char *s, uint32_t *nr, const char **rest)
{
	size_t n = strspn(s, "0123456789");

	*nr = n > 0 && n <= 5 ? (uint32_t)strtoul(s, NULL, 10) : 0;
	*rest = s + n;
	return *nr > 0 && *nr <= UINT16_MAX && (**rest == '/' || **rest == '?' || **rest == '\0');
}

static bool length_of(const struct talk *t, bool *has, uint64_t *ret)
{
	const char *s = call_find(&t->head, "content-length");

	*has = s != NULL;
	*ret = s != NULL ? strtoull(s, NULL, 10) : 0;
	return s == NULL || (*s != '\0' && strspn(s, "0123456789") == strlen(s) && strlen(s) <= 18);
}

void port_call(struct talk *t, json_t *req)
{
	struct err e = ERR_INIT;
	struct port *p = calloc(1, sizeof(*p));
	struct msg_writer w;
	struct buf msg;
	int r;

	(void)req;
	if (p == NULL) {
		talk_cut(t);
		return;
	}
	p->t = t;
	p->look.fire = on_look;
	buf_init(&p->up, 4 * CALL_PIECE_MAX);
	buf_init(&p->in, PORT_IN);
	t->ops = &talk_ops;
	t->arg = p;
	if (!port_of(route_rest(t), &p->nr, &p->target) ||
	    !length_of(t, &p->has_length, &p->length)) {
		port_free(t);
		fail_status(t, 400,
			    "a port of 1 to 65535 and a length that is a number are wanted");
		return;
	}
	w = query_begin(&msg, REQ_PORT, 0, NULL);
	msg_u64(&w, F_PORT, p->nr);
	r = w.err < 0 ? w.err
		      : session_open(t->k->session, &msg, NULL, 0, &stream_ops, p, &p->s, &e);
	buf_done(&msg);
	if (r < 0) {
		port_refuse(p, "The sandbox takes no more connections for now");
		return;
	}
	p->upgrade = call_find(&t->head, "upgrade");
	if (p->upgrade == NULL)
		return;
	/* no body will come before the answer, and the answer decides what comes then */
	if (p->has_length || put_head(p, false) < 0)
		port_refuse(p, "A switch of protocols has no body, and a head of moderate size");
	else
		(void)flush(p);
}
