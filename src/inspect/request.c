#include "inspect/priv.h"

#include "base/cleanup.h"
#include "base/num.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/*
 * From the client to the server. A request is read whole up to its body, decided, and written anew; nothing of it goes
 * out before, and nothing of the next one before its answer is through.
 */

enum { HEAD_MS = 30000, BODY_RUN = 32 * 1024 };

static struct http_text text_of(const char *s) { return (struct http_text){s, strlen(s)}; }

/* "name" or "name:port" of where this connection goes. */
static bool is_here(const struct conn *k, struct http_text a)
{
	char port[8];
	size_t n = strlen(k->dest.name), p;

	p = (size_t)snprintf(port, sizeof(port), ":%u", k->dest.port);
	if (a.n > n && a.p[n] == '.') { /* the root's dot */
		if (!http_is((struct http_text){a.p, n}, k->dest.name))
			return false;
		a.p += n + 1;
		a.n -= n + 1;
	} else if (a.n < n || !http_is((struct http_text){a.p, n}, k->dest.name)) {
		return false;
	} else {
		a.p += n;
		a.n -= n;
	}
	return a.n == 0 || (a.n == p && memcmp(a.p, port, p) == 0);
}

static void note(struct conn *k, const struct http_head *h)
{
	struct exchange *x = &k->x;
	const char *query = h->target.p != NULL ? memchr(h->target.p, '?', h->target.n) : NULL;
	size_t n = query != NULL ? (size_t)(query - h->target.p) : h->target.n; /* queries carry what is nobody's business */

	(void)snprintf(x->method, sizeof(x->method), "%.*s", (int)h->method.n, h->method.n > 0 ? h->method.p : "");
	(void)snprintf(x->host, sizeof(x->host), "%.*s", (int)MIN(h->host.n, (size_t)255), h->host.n > 0 ? h->host.p : "");
	(void)snprintf(x->path, sizeof(x->path), "%.*s", (int)MIN(n, (size_t)511), n > 0 ? h->target.p : "");
	x->to_head = http_is(h->method, "head");
	x->http10 = h->minor == 0;
}

static bool upgrade_listed(const struct conn *k, struct http_text asked)
{
	for (uint32_t i = 0; i < k->http->upgrades_n; i++)
		if (http_is(asked, k->http->upgrades[i]))
			return true;
	return false;
}

static struct refusal decide(struct conn *k, const struct http_head *h, size_t size)
{
	const char *reason = "authority_mismatch";

	if (!is_here(k, h->host) || (h->authority.n > 0 && (!is_here(k, h->authority) || h->secure != k->tls)))
		return (struct refusal){421, k->tls ? "authority_mismatch" : "host_mismatch"};
	if ((needles_in(&k->b->marks, (uint8_t *)k->c.in.data + k->c.in.off, size, false) & ~k->marks_ok) != 0)
		return (struct refusal){403, "secret_placeholder_misuse"};
	if (h->upgrade.n > 0 && (!upgrade_listed(k, h->upgrade) || h->body != HTTP_NONE))
		return (struct refusal){403, "upgrade"};
	if (!judge_request(k->http, h->method.p, h->method.n, h->target.p, h->target.n, &reason))
		return (struct refusal){403, reason};
	if (k->http->max_body_bytes != 0 && h->body == HTTP_LENGTH && h->length > k->http->max_body_bytes)
		return (struct refusal){413, "body_size"};
	if (!k->waits && k->up != UP_READY && !tell_room())
		return (struct refusal){503, "audit_full"};
	return (struct refusal){0, NULL};
}

/* ---- writing it anew ---- */

/* The rule that sets this field, or NULL. */
static const struct judge_inject *injects(const struct conn *k, struct http_text name)
{
	for (uint32_t i = 0; k->may_inject && i < k->http->inject_n; i++)
		if (http_is(name, k->http->inject[i].header))
			return &k->http->inject[i];
	return NULL;
}

static bool passes(const struct conn *k, const struct http_head *h, struct http_text name)
{
	if (http_is_hop(h, name) || http_is(name, "host") || http_is(name, "content-length"))
		return false;
	/* what is looked for in the answer must be readable, and whole */
	if (k->redacts && (http_is(name, "accept-encoding") || http_is(name, "range") || http_is(name, "if-range")))
		return false;
	return injects(k, name) == NULL;
}

static int put_injects(struct conn *k, const struct http_head *h, struct buf *out)
{
	for (uint32_t i = 0; k->may_inject && i < k->http->inject_n; i++) {
		const struct judge_inject *x = &k->http->inject[i];
		struct http_text own = http_find(h, x->header), name = text_of(x->header);
		char value[VALUE_MAX];
		int r = inject_value(k->b, x, own, value);

		if (r == 0)
			r = http_put_field(out, name, own);
		else if (r == 1) {
			r = http_put_field(out, name, text_of(value));
			(void)snprintf(k->x.inject_header, sizeof(k->x.inject_header), "%s", x->header);
			(void)snprintf(k->x.secret_ref, sizeof(k->x.secret_ref), "%s", x->secret);
		}
		explicit_bzero(value, sizeof(value));
		if (r < 0)
			return r;
	}
	return 0;
}

static int put_head(struct conn *k, const struct http_head *h)
{
	struct buf *out = &k->u.out;
	char line[320];
	int r = buf_put(out, h->method.p, h->method.n);

	if (r == 0)
		r = buf_put(out, " ", 1);
	if (r == 0)
		r = buf_put(out, h->target.p, h->target.n);
	(void)snprintf(line, sizeof(line), k->dest.port == (k->tls ? 443 : 80) ? " HTTP/1.1\r\nHost: %s\r\n" : " HTTP/1.1\r\nHost: %s:%u\r\n",
		       k->dest.name, k->dest.port);
	if (r == 0)
		r = buf_put(out, line, strlen(line));
	for (uint32_t i = 0; r == 0 && i < h->fields_n; i++)
		if (passes(k, h, h->field[i].name))
			r = http_put_field(out, h->field[i].name, h->field[i].value);
	if (r == 0 && k->redacts)
		r = http_put_field(out, text_of("Accept-Encoding"), text_of("identity"));
	if (r == 0)
		r = put_injects(k, h, out);
	if (r == 0 && h->body == HTTP_LENGTH) {
		(void)snprintf(line, sizeof(line), "%llu", (unsigned long long)h->length);
		r = http_put_field(out, text_of("Content-Length"), text_of(line));
	}
	if (r == 0 && h->body == HTTP_CHUNKED)
		r = http_put_field(out, text_of("Transfer-Encoding"), text_of("chunked"));
	if (r == 0 && k->x.upgrade[0] != '\0') {
		r = http_put_field(out, text_of("Connection"), text_of("Upgrade"));
		if (r == 0)
			r = http_put_field(out, text_of("Upgrade"), text_of(k->x.upgrade));
	}
	return r < 0 ? r : buf_put(out, "\r\n", 2);
}

static void send_on(struct conn *k, const struct http_head *h, size_t size)
{
	struct exchange *x = &k->x;

	x->expect = h->expect_continue;
	x->close = h->close || h->minor == 0;
	(void)snprintf(x->upgrade, sizeof(x->upgrade), "%.*s", (int)h->upgrade.n, h->upgrade.n > 0 ? h->upgrade.p : "");
	if (put_head(k, h) < 0) {
		exchange_refuse(k, 502, "overload");
		return;
	}
	x->open = true;
	x->req_body = h->body;
	x->req_left = h->length;
	x->req_done = h->body == HTTP_NONE || (h->body == HTTP_LENGTH && h->length == 0);
	buf_consume(&k->c.in, size);
	k->requests++;
	k->head_seen = k->res_seen = 0;
	k->deadline_ms = 0;
}

/* ---- steps ---- */

static bool no_head(struct conn *k)
{
	size_t before = k->c.in.len;

	if (side_fill(&k->c) > 0) {
		if (before == 0 && k->requests > 0)
			k->deadline_ms = k->b->loop->now_ms + HEAD_MS;
		return true;
	}
	if (!k->c.ended)
		return false;
	if (k->c.in.len > 0) {
		exchange_refuse(k, 400, "http_unparsable");
	} else if (k->requests == 0) {
		conn_no_request(k, 400, "hello_missing");
	} else {
		conn_linger(k);
	}
	return true;
}

static bool head_step(struct conn *k)
{
	static struct http_head h; /* of the one thread */
	const char *why = NULL;
	struct refusal no;
	ssize_t n;

	if (k->waits)
		return false;
	if (k->c.in.len == k->head_seen && k->up != UP_READY)
		return no_head(k);
	if (k->c.in.len == 0)
		return no_head(k);
	n = http_parse(buf_head(&k->c.in), k->c.in.len, true, &h, &why);
	k->head_seen = k->c.in.len;
	if (n == 0)
		return no_head(k);
	exchange_begin(&k->x);
	note(k, &h);
	if (n < 0) {
		exchange_refuse(k, n == -E2BIG ? 431 : 400, "http_unparsable");
		return true;
	}
	no = decide(k, &h, (size_t)n);
	if (no.status == 0)
		no = body_ahead(k, &h, (size_t)n);
	if (no.status == 0 && k->up != UP_READY) {
		conn_dial(k);
		return true;
	}
	if (no.status == 0 && !judge_request_rate(k->b->judge, &k->v, k->b->loop->now_ms, &no.reason))
		no.status = 429;
	if (no.status != 0)
		exchange_refuse(k, no.status, no.reason);
	else
		send_on(k, &h, (size_t)n);
	return true;
}

int put_content(struct buf *out, bool chunked, const uint8_t *p, size_t n, bool last)
{
	char size[24];
	int r = 0;

	if (n > 0 && chunked)
		r = buf_put(out, size, (size_t)snprintf(size, sizeof(size), "%zx\r\n", n));
	if (r == 0 && n > 0)
		r = buf_put(out, p, n);
	if (r == 0 && n > 0 && chunked)
		r = buf_put(out, "\r\n", 2);
	return r == 0 && last && chunked ? buf_put(out, "0\r\n\r\n", 5) : r;
}

/* A run of the body; false: refused. */
static bool put_run(struct conn *k, const uint8_t *p, size_t n, bool last)
{
	struct exchange *x = &k->x;
	bool chunked = x->req_body == HTTP_CHUNKED;
	uint64_t found = 0;
	struct buf tmp;
	int r;

	x->req_seen += n;
	if (k->http->max_body_bytes != 0 && x->req_seen > k->http->max_body_bytes) {
		exchange_refuse(k, 413, "body_size");
		return false;
	}
	if (k->b->marks.n == 0) {
		r = put_content(&k->u.out, chunked, p, n, last);
	} else {
		buf_init(&tmp, n + SIEVE_LONGEST);
		r = sieve_pass(&x->req_sieve, &k->b->marks, p, n, last, &tmp, &found);
		if (r == 0 && (found & ~k->marks_ok) != 0) {
			buf_done(&tmp);
			exchange_refuse(k, 403, "secret_placeholder_misuse");
			return false;
		}
		if (r == 0)
			r = put_content(&k->u.out, chunked, buf_head(&tmp), tmp.len, last);
		buf_done(&tmp);
	}
	if (r < 0)
		exchange_refuse(k, 502, "overload");
	x->req_done = last;
	return r == 0;
}

static bool body_step(struct conn *k)
{
	struct exchange *x = &k->x;
	const uint8_t *p, *data;
	size_t n, data_n;
	ssize_t took;

	if (k->u.out.len >= SIDE_OUT_FULL)
		return false;
	if (k->c.in.len == 0 || (x->req_body == HTTP_CHUNKED && k->c.in.len == k->head_seen)) {
		if (side_fill(&k->c) > 0)
			return true;
		if (k->c.ended) /* half a request */
			conn_drop(k, "reset");
		return false;
	}
	p = buf_head(&k->c.in);
	n = MIN(k->c.in.len, (size_t)BODY_RUN);
	if (x->req_body == HTTP_LENGTH) {
		n = (size_t)MIN((uint64_t)n, x->req_left);
		x->req_left -= n;
		if (put_run(k, p, n, x->req_left == 0))
			buf_consume(&k->c.in, n);
		return true;
	}
	took = http_chunks_step(&x->req_chunks, p, n, &data, &data_n);
	if (took < 0) {
		exchange_refuse(k, 400, "http_unparsable");
		return true;
	}
	k->head_seen = took == 0 ? k->c.in.len : 0;
	if ((data_n > 0 || x->req_chunks.done) && !put_run(k, data, data_n, x->req_chunks.done))
		return true;
	buf_consume(&k->c.in, (size_t)took);
	if (x->req_done)
		k->head_seen = 0;
	return true;
}

bool request_step(struct conn *k)
{
	if (!k->x.open)
		return head_step(k);
	return !k->x.req_done && body_step(k);
}
