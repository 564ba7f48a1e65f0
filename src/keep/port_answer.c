#include "base/cleanup.h"
#include "base/num.h"
#include "keep/port.h"
#include "keep/priv.h"
#include "wire/frame.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/*
 * The answer of a program inside, which is hostile: read strictly (parse/http.h), written anew.
 * What is between two neighbours only is left out. A switch of protocols that was not asked for, or
 * to another than was, is refused.
 */

static char *copy(char **at, struct http_text s, bool lower)
{
	char *ret = *at;

	for (size_t i = 0; i < s.n; i++)
		ret[i] = lower ? (char)tolower((unsigned char)s.p[i]) : s.p[i];
	ret[s.n] = '\0';
	*at += s.n + 1;
	return ret;
}

static bool passes(const struct http_head *h, struct http_text name, enum http_body body)
{
	if (http_is_hop(h, name))
		return false;
	return !http_is(name, "content-length") || body == HTTP_LENGTH;
}

/* -ENOMEM. */
static int send_head(struct port *p, const struct http_head *h, size_t bytes)
{
	struct call_field f[HTTP_FIELDS_MAX];
	_cleanup_free_ char *text = malloc(bytes + 2 * (size_t)h->fields_n + 1);
	char *at = text;
	uint32_t n = 0;

	if (text == NULL)
		return -ENOMEM;
	for (uint32_t i = 0; i < h->fields_n; i++) {
		bool to_head = http_is(h->field[i].name, "content-length") &&
			       strcmp(p->t->head.method, "HEAD") == 0;

		bool to_what = p->switched && http_is(h->field[i].name, "upgrade");

		if (!to_head && !to_what && !passes(h, h->field[i].name, p->body))
			continue;
		f[n].name = copy(&at, h->field[i].name, true);
		f[n++].value = copy(&at, h->field[i].value, false);
	}
	talk_reply(p->t, h->status, f, n);
	return 0;
}

static bool may_switch(const struct port *p, const struct http_head *h)
{
	return p->upgrade != NULL && h->upgrade.n > 0 && h->upgrade.n == strlen(p->upgrade) &&
	       strncasecmp(h->upgrade.p, p->upgrade, h->upgrade.n) == 0;
}

/* Heads of 1xx are dropped: there may be thousands in what is here. */
static ssize_t next_head(struct port *p, struct http_head *h)
{
	const char *why = NULL;
	ssize_t used = 0;

	while (p->in.len > 0) {
		used = http_parse(buf_head(&p->in), p->in.len, false, h, &why);
		if (used <= 0 || h->status >= 200 || h->status == 101)
			break;
		buf_consume(&p->in, (size_t)used);
		used = 0;
	}
	return used;
}

/* 1: the head is through, 0: more is needed, -1: p is gone. */
static int take_head(struct port *p)
{
	struct http_head h;
	ssize_t used = next_head(p, &h);

	if (used == 0 && !p->eof)
		return 0;
	if (used == 0) {
		port_refuse(p, p->refused ? "The sandbox is running but port is not open"
					  : "The port gave no answer");
		return -1;
	}
	p->switched = used > 0 && h.status == 101 && may_switch(p, &h);
	if (used < 0 || (h.status == 101 && !p->switched)) {
		port_refuse(p, used < 0 ? "The port's answer is no HTTP"
					: "The port wants to switch protocols");
		return -1;
	}
	p->body = p->switched ? HTTP_TO_END
			      : http_response_body(&h, strcmp(p->t->head.method, "HEAD") == 0);
	p->left = h.length;
	if (send_head(p, &h, (size_t)used) < 0) {
		port_refuse(p, "out of memory");
		return -1;
	}
	p->answered = true;
	buf_consume(&p->in, (size_t)used);
	if (p->switched)
		port_switched(p);
	else if (p->upgrade != NULL)
		talk_resume(p->t); /* what the client may say is for nobody */
	return 1;
}

static bool whole(const struct port *p)
{
	switch (p->body) {
	case HTTP_NONE:
		return true;
	case HTTP_LENGTH:
		return p->left == 0;
	case HTTP_CHUNKED:
		return p->chunks.done;
	case HTTP_TO_END:
		return p->eof && p->in.len == 0;
	}
	return false;
}

/* One step over the body: 1, 0 = more is needed or there is no room, -1 = p is gone. */
static int step(struct port *p)
{
	const uint8_t *b = buf_head(&p->in), *data = b;
	size_t n = MIN(p->in.len, talk_room(p->t)), data_n = n;
	ssize_t used = (ssize_t)n;

	if (n == 0)
		return 0;
	if (p->body == HTTP_LENGTH) {
		data_n = (size_t)MIN((uint64_t)n, p->left);
		used = (ssize_t)data_n;
		p->left -= data_n;
	} else if (p->body == HTTP_CHUNKED) {
		data_n = 0;
		used = http_chunks_step(&p->chunks, b, n, &data, &data_n);
	}
	if (used < 0) {
		port_refuse(p, "");
		return -1;
	}
	if (data_n > 0)
		talk_send(p->t, data, data_n);
	buf_consume(&p->in, (size_t)used);
	return used > 0;
}

void port_answer(struct port *p)
{
	int r;

	if (!p->answered && take_head(p) <= 0)
		return;
	do
		r = whole(p) ? 0 : step(p);
	while (r > 0);
	if (r < 0)
		return;
	if (whole(p))
		port_done(p);
	else if (p->eof && talk_room(p->t) > 0)
		port_refuse(p, ""); /* it broke off: the client sees the same */
	else if (p->s != NULL)
		stream_resume(p->s, CHAN_OUT);
}
