#include "inspect/priv.h"

#include "base/num.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/*
 * From the server to the client: the answer's framing is checked and written anew, secrets that were put in are masked
 * where the rule says so. What cannot be passed on is a 502, or, once an answer has begun, a reset, so that half of one
 * never looks whole.
 */

enum { INTERIM_MAX = 32, BODY_RUN = 32 * 1024 };

static struct http_text text_of(const char *s) { return (struct http_text){s, strlen(s)}; }

void exchange_begin(struct exchange *x)
{
	exchange_end(x);
	*x = (struct exchange){.open = false};
	sieve_init(&x->req_sieve);
	sieve_init(&x->res_sieve);
}

void exchange_end(struct exchange *x)
{
	sieve_done(&x->req_sieve);
	sieve_done(&x->res_sieve);
	x->open = false;
}

bool exchange_record(struct conn *k, bool allow, const char *reason, uint32_t status)
{
	struct inspect_tell t = {.kind = INSPECT_RECORD,
				 .what = INSPECT_REQUEST,
				 .flow = k->flow,
				 .allow = allow,
				 .status = status};
	struct exchange *x = &k->x;

	x->recorded = true;
	(void)snprintf(t.reason, sizeof(t.reason), "%s", reason);
	(void)snprintf(t.method, sizeof(t.method), "%s", x->method);
	(void)snprintf(t.host, sizeof(t.host), "%s", x->host);
	(void)snprintf(t.path, sizeof(t.path), "%s", x->path);
	(void)snprintf(t.inject_header, sizeof(t.inject_header), "%s", x->inject_header);
	(void)snprintf(t.secret_ref, sizeof(t.secret_ref), "%s", x->secret_ref);
	return tell_gate(&t);
}

static const char *words_of(uint32_t status)
{
	switch (status) {
	case 400:
		return "Bad Request";
	case 403:
		return "Forbidden";
	case 408:
		return "Request Timeout";
	case 413:
		return "Content Too Large";
	case 421:
		return "Misdirected Request";
	case 429:
		return "Too Many Requests";
	case 431:
		return "Request Header Fields Too Large";
	case 503:
		return "Service Unavailable";
	case 504:
		return "Gateway Timeout";
	default:
		return "Bad Gateway";
	}
}

/* Rule ids are the operator's and need no escapes here; what is not plain is left out. */
static void put_plain(char *out, size_t size, const char *s)
{
	size_t n = 0;

	for (; *s != '\0' && n + 1 < size; s++)
		if (*s >= 0x20 && *s < 0x7f && *s != '"' && *s != '\\')
			out[n++] = *s;
	out[n] = '\0';
}

void exchange_answer(struct conn *k, uint32_t status, const char *reason)
{
	char body[256], head[256], rule[JUDGE_ID_MAX + 1];
	int n, m;

	put_plain(rule, sizeof(rule), k->v.rule);
	n = snprintf(body, sizeof(body), "{\"code\":\"%s\",\"rule_hint\":\"%s\",\"request_id\":\"%s-%llu-%u\"}\n", reason, rule,
		     k->b->id, (unsigned long long)k->flow, k->requests + (k->x.open ? 0 : 1));
	m = snprintf(head, sizeof(head),
		     "HTTP/1.1 %u %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n", status,
		     words_of(status), n);
	if (buf_put(&k->c.out, head, (size_t)m) < 0 || (!k->x.to_head && buf_put(&k->c.out, body, (size_t)n) < 0))
		k->c.broken = true;
	conn_linger(k);
}

void exchange_refuse(struct conn *k, uint32_t status, const char *reason)
{
	if (!k->x.recorded)
		(void)exchange_record(k, false, reason, status);
	if (k->x.res_head) {
		conn_drop(k, reason);
		return;
	}
	exchange_answer(k, status, reason);
}

/* ---- the head ---- */

static bool passes(const struct http_head *h, struct http_text name, bool keep_length)
{
	if (http_is(name, "content-length"))
		return keep_length && h->body == HTTP_LENGTH;
	return !http_is_hop(h, name) && !http_is(name, "alt-svc"); /* there is no way to other services */
}

static int put_head(struct conn *k, const struct http_head *h, enum http_body body)
{
	struct exchange *x = &k->x;
	struct buf *out = &k->c.out;
	size_t before = out->len;
	char line[64];
	int r;

	(void)snprintf(line, sizeof(line), "HTTP/1.1 %u ", h->status);
	r = buf_put(out, line, strlen(line));
	if (r == 0)
		r = buf_put(out, h->reason.p, h->reason.n);
	if (r == 0)
		r = buf_put(out, "\r\n", 2);
	for (uint32_t i = 0; r == 0 && i < h->fields_n; i++)
		if (passes(h, h->field[i].name, body == HTTP_NONE && h->status >= 200 && h->status != 204))
			r = http_put_field(out, h->field[i].name, h->field[i].value);
	(void)snprintf(line, sizeof(line), "%llu", (unsigned long long)h->length);
	if (r == 0 && body == HTTP_LENGTH)
		r = http_put_field(out, text_of("Content-Length"), text_of(line));
	if (r == 0 && x->res_chunked)
		r = http_put_field(out, text_of("Transfer-Encoding"), text_of("chunked"));
	if (r == 0 && h->status == 101) {
		r = http_put_field(out, text_of("Upgrade"), text_of(x->upgrade));
		if (r == 0)
			r = http_put_field(out, text_of("Connection"), text_of("Upgrade"));
	} else if (r == 0 && x->close) {
		r = http_put_field(out, text_of("Connection"), text_of("close"));
	}
	if (r == 0)
		r = buf_put(out, "\r\n", 2);
	if (r == 0 && k->redacts)
		(void)needles_in(&k->b->redact, out->data + out->off + before, out->len - before, true);
	return r;
}

/* 100 for a client that waits for it, 101 for what it asked for; others are not needed. False: cannot be passed on. */
static bool interim(struct conn *k, const struct http_head *h)
{
	struct exchange *x = &k->x;
	static const char go_on[] = "HTTP/1.1 100 Continue\r\n\r\n";

	if (++x->interim > INTERIM_MAX)
		return false;
	if (h->status == 100 && x->expect && buf_put(&k->c.out, go_on, sizeof(go_on) - 1) < 0)
		return false;
	if (h->status != 101)
		return true;
	if (x->upgrade[0] == '\0' || h->upgrade.n == 0 || !http_is(h->upgrade, x->upgrade) || !x->req_done ||
	    put_head(k, h, HTTP_NONE) < 0)
		return false;
	x->res_head = true;
	if (!exchange_record(k, true, "allowed", 101))
		return false;
	k->state = C_TUNNEL;
	return true;
}

static bool readable(const struct conn *k, const struct http_head *h)
{
	struct http_text coding = http_find(h, "content-encoding");

	return !k->redacts || coding.p == NULL || http_is(coding, "identity");
}

static bool final(struct conn *k, const struct http_head *h)
{
	struct exchange *x = &k->x;

	if (!readable(k, h))
		return false;
	x->res_body = http_response_body(h, x->to_head);
	x->res_left = h->length;
	x->res_chunked = !x->http10 && (x->res_body == HTTP_CHUNKED || x->res_body == HTTP_TO_END);
	x->close |= h->close || x->res_body == HTTP_TO_END;
	if (put_head(k, h, x->res_body) < 0)
		return false;
	x->res_head = true;
	x->res_done = x->res_body == HTTP_NONE || (x->res_body == HTTP_LENGTH && h->length == 0);
	if (!exchange_record(k, true, "allowed", h->status))
		conn_drop(k, "audit_full");
	return true;
}

/* The server is gone, and no head of an answer came. */
static void no_answer(struct conn *k)
{
	if (k->requests > 1 && k->u.in.len == 0) { /* it had closed an idle connection: so do we, and the client tries again */
		(void)exchange_record(k, true, "upstream_error", 0);
		conn_linger(k);
	} else {
		exchange_refuse(k, 502, "upstream_error");
	}
}

static bool head_step(struct conn *k)
{
	static struct http_head h; /* of the one thread */
	const char *why = NULL;
	ssize_t n = 0;

	if (k->u.in.len > k->res_seen) {
		n = http_parse(buf_head(&k->u.in), k->u.in.len, false, &h, &why);
		k->res_seen = k->u.in.len;
	}
	if (n == 0) {
		if (side_fill(&k->u) > 0)
			return true;
		if (!k->u.ended && !k->u.broken)
			return false;
		no_answer(k);
		return true;
	}
	k->res_seen = 0;
	if (n < 0 || !(h.status < 200 ? interim(k, &h) : final(k, &h))) {
		exchange_refuse(k, 502, "upstream_error");
		return true;
	}
	if (k->state != C_DEAD)
		buf_consume(&k->u.in, (size_t)n);
	return true;
}

/* ---- the body ---- */

static bool put_run(struct conn *k, const uint8_t *p, size_t n, bool last)
{
	struct exchange *x = &k->x;
	uint64_t found = 0;
	struct buf tmp;
	int r;

	if (!k->redacts) {
		r = put_content(&k->c.out, x->res_chunked, p, n, last);
	} else {
		buf_init(&tmp, n + SIEVE_LONGEST);
		r = sieve_pass(&x->res_sieve, &k->b->redact, p, n, last, &tmp, &found);
		if (r == 0)
			r = put_content(&k->c.out, x->res_chunked, buf_head(&tmp), tmp.len, last);
		buf_done(&tmp);
	}
	x->res_done = last;
	if (r < 0)
		conn_drop(k, "overload");
	return r == 0;
}

/* Nothing more can be read: 1 = that is the end of the body, -1 = it is cut off, 0 = more will come. */
static int at_end(const struct conn *k)
{
	if (k->u.broken)
		return -1;
	if (!k->u.ended)
		return 0;
	return k->x.res_body == HTTP_TO_END ? 1 : -1;
}

static bool body_step(struct conn *k)
{
	struct exchange *x = &k->x;
	const uint8_t *p, *data;
	size_t n, data_n;
	ssize_t took;
	int end;

	if (k->c.out.len >= SIDE_OUT_FULL)
		return false;
	if (k->u.in.len == 0 || (x->res_body == HTTP_CHUNKED && k->u.in.len == k->res_seen)) {
		if (side_fill(&k->u) > 0)
			return true;
		end = at_end(k);
		if (end < 0)
			conn_drop(k, "upstream_error");
		return end > 0 && put_run(k, NULL, 0, true);
	}
	p = buf_head(&k->u.in);
	n = MIN(k->u.in.len, (size_t)BODY_RUN);
	if (x->res_body != HTTP_CHUNKED) {
		if (x->res_body == HTTP_LENGTH) {
			n = (size_t)MIN((uint64_t)n, x->res_left);
			x->res_left -= n;
		}
		if (put_run(k, p, n, x->res_body == HTTP_LENGTH && x->res_left == 0))
			buf_consume(&k->u.in, n);
		return true;
	}
	took = http_chunks_step(&x->res_chunks, p, n, &data, &data_n);
	if (took < 0) {
		conn_drop(k, "upstream_error");
		return false;
	}
	k->res_seen = took == 0 ? k->u.in.len : 0;
	if ((data_n > 0 || x->res_chunks.done) && !put_run(k, data, data_n, x->res_chunks.done))
		return false;
	buf_consume(&k->u.in, (size_t)took);
	return true;
}

/* Between requests: a server that closes, or speaks unasked. */
static bool idle_step(struct conn *k)
{
	if (k->up != UP_READY || k->requests == 0)
		return false;
	(void)side_fill(&k->u);
	if (k->u.in.len == 0 && !k->u.ended && !k->u.broken)
		return false;
	if (k->c.in.len > 0 && k->u.in.len == 0)
		return false; /* a request is on its way in: it will see */
	conn_linger(k);
	return true;
}

bool response_step(struct conn *k)
{
	struct exchange *x = &k->x;

	if (!x->open)
		return idle_step(k);
	if (!x->res_head)
		return head_step(k);
	if (!x->res_done)
		return body_step(k);
	if (x->close || !x->req_done) {
		exchange_end(x);
		conn_linger(k);
	} else {
		exchange_begin(x);
		k->head_seen = k->res_seen = 0;
	}
	return true;
}
