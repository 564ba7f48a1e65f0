#include "gate/judge_priv.h"

#include "base/decimal.h"
#include "parse/stamp.h"

#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

/*
 * One decision as one JSON line (RFC 8259). Every byte of foreign text outside printable ASCII is escaped, so that a line
 * is a line whatever a sandbox or a server sent; and each text is cut, so that a line always fits into PIPE_BUF bytes,
 * which a pipe takes whole or not at all.
 */

enum { TEXT_MAX = 460, CNAMES_TEXT_MAX = 512 }; /* bytes of one text as written, of a chain of names */

struct line {
	struct buf *b;
	int err; /* the first failure; nothing is written after it */
};

static void put_n(struct line *l, const char *s, size_t n)
{
	if (l->err == 0)
		l->err = buf_put(l->b, s, n);
}

static void put(struct line *l, const char *s) { put_n(l, s, strlen(s)); }

static bool is_plain(char c) { return c >= 0x20 && c < 0x7f && c != '"' && c != '\\'; }

/* Quoted, at most room bytes between the quotes. What is plain goes as one piece: a record is written before each dial. */
static void put_text(struct line *l, const char *s, size_t n, size_t room)
{
	enum { ESCAPED = 6 };
	char esc[ESCAPED + 1];

	put(l, "\"");
	for (size_t i = 0; i < n; i++) {
		size_t from = i, end = i + MIN(n - i, room);

		while (i < end && is_plain(s[i]))
			i++;
		put_n(l, s + from, i - from);
		room -= i - from;
		if (i == n || room < ESCAPED)
			break;
		put_n(l, esc, (size_t)snprintf(esc, sizeof(esc), "\\u%04x", (unsigned char)s[i]));
		room -= ESCAPED;
	}
	put(l, "\"");
}

static void key(struct line *l, const char *k)
{
	put(l, ",\"");
	put(l, k);
	put(l, "\":");
}

/* What is not known is not written. */
static void key_text(struct line *l, const char *k, const char *s)
{
	if (s == NULL || s[0] == '\0')
		return;
	key(l, k);
	put_text(l, s, strlen(s), TEXT_MAX);
}

static void put_num(struct line *l, uint64_t v)
{
	char num[DECIMAL_MAX];
	size_t n = decimal_put(num, v, 1);

	put_n(l, num, n);
}

static void key_num(struct line *l, const char *k, uint64_t v)
{
	key(l, k);
	put_num(l, v);
}

static void key_true(struct line *l, const char *k, bool v)
{
	if (!v)
		return;
	key(l, k);
	put(l, "true");
}

static void put_addr(struct line *l, const struct resolve_addr *a)
{
	char text[INET6_ADDRSTRLEN];

	if (a->v6)
		put(l, inet_ntop(AF_INET6, a->a, text, sizeof(text)));
	for (int i = 0; !a->v6 && i < 4; i++) {
		put(l, i > 0 ? "." : "");
		put_num(l, a->a[i]);
	}
}

static void key_addr(struct line *l, const char *k, const struct resolve_addr *a)
{
	if (a == NULL)
		return;
	key(l, k);
	put(l, "\"");
	put_addr(l, a);
	put(l, "\"");
}

static void key_peer(struct line *l, const char *k, const struct judge_peer *p)
{
	if (p == NULL)
		return;
	key(l, k);
	put(l, p->addr.v6 ? "\"[" : "\"");
	put_addr(l, &p->addr);
	put(l, p->addr.v6 ? "]:" : ":");
	put_num(l, p->port);
	put(l, "\"");
}

static void put_where(struct line *l, const struct judge_record *r)
{
	const struct judge_dest *d = r->dest;
	bool ranged = !d->named && r->rule != NULL && r->rule[0] != '\0';

	key_text(l, "dst_kind", d->named ? "name" : "addr");
	if (d->named)
		key_text(l, "name", d->name);
	key_text(l, "name_source", d->pinned ? "pin" : d->named ? "synthetic" : ranged ? "cidr" : "none");
	key_addr(l, "orig_dst", &d->orig);
	key_num(l, "dst_port", d->port);
}

static void put_resolved(struct line *l, const struct judge_record *r)
{
	const struct resolve_result *res = r->resolved;
	size_t room = CNAMES_TEXT_MAX;

	key(l, "resolved");
	for (uint32_t i = 0; i < res->n; i++) {
		put(l, i == 0 ? "[\"" : ",\"");
		put_addr(l, &res->addr[i]);
		put(l, "\"");
	}
	put(l, res->n > 0 ? "]" : "[]");
	if (res->cnames_n > 0)
		key(l, "cname_chain");
	for (uint32_t i = 0; i < res->cnames_n; i++) {
		size_t before = l->b->len;

		put(l, i == 0 ? "[" : ",");
		put_text(l, res->cname[i], strlen(res->cname[i]), room);
		room -= MIN(room, l->b->len - before);
	}
	if (res->cnames_n > 0)
		put(l, "]");
	if (r->dest != NULL && r->dest->named)
		key_num(l, "dns_ms", r->dns_ms);
}

static void put_hello(struct line *l, const struct judge_hello *h)
{
	key_text(l, "sni", h->sni);
	key_text(l, "alpn", h->alpn);
	key_true(l, "ech", h->ech);
}

static void put_request(struct line *l, const struct judge_req *q)
{
	put(l, ",\"http\":{\"method\":");
	put_text(l, q->method, strlen(q->method), HTTP_WORD_MAX);
	key_text(l, "host", q->host);
	key_text(l, "path", q->path);
	if (q->status != 0)
		key_num(l, "status", q->status);
	put(l, "}");
	if (q->inject_header == NULL)
		return;
	put(l, ",\"inject\":[{\"header\":");
	put_text(l, q->inject_header, strlen(q->inject_header), TEXT_MAX);
	key_text(l, "secret_ref", q->secret_ref);
	put(l, "}]");
}

static void put_end(struct line *l, const struct judge_record *r)
{
	key_text(l, "close_reason", r->close_reason);
	key_num(l, "bytes_up", r->bytes_up);
	key_num(l, "bytes_down", r->bytes_down);
	key_num(l, "dur_ms", r->dur_ms);
	if (r->local_out != NULL)
		key_num(l, "connect_ms", r->connect_ms);
}

static void put_verdict(struct line *l, const struct judge *j, const struct judge_record *r)
{
	const struct judge_reason *why = judge_reason(r->reason);
	enum judge_severity s = why != NULL ? why->severity : SEVERITY_MEDIUM;

	key_text(l, "event", r->event);
	key_text(l, "verdict", r->allow ? "allow" : "deny");
	key_text(l, "reason", r->reason);
	key_text(l, "severity", judge_severity_name(r->allow ? SEVERITY_INFO : s));
	key_text(l, "rule_id", r->rule);
	key_true(l, "enforce_would_deny", r->would_deny);
	key_true(l, "alert", r->alert);
	key_num(l, "policy_gen", j->generation);
	key_text(l, "policy_sha256", j->sha256);
}

static void put_who(struct line *l, const struct judge_who *w)
{
	key_text(l, "task_id", w->task);
	key_text(l, "sandbox_id", w->sandbox);
	key_text(l, "lifecycle_id", w->lifecycle);
	key_text(l, "lineage_id", w->lineage);
	key_text(l, "tier", w->tier);
}

static void put_time(struct line *l)
{
	char text[STAMP_SIZE];
	struct timespec t;

	(void)clock_gettime(CLOCK_REALTIME, &t);
	put(l, stamp_text(t.tv_sec, (uint32_t)t.tv_nsec, 3, text));
}

static void put_head(struct line *l, const struct judge_place *at)
{
	put(l, "{\"ts\":\"");
	put_time(l);
	put(l, "\"");
	key_num(l, "seq", at->seq);
	key_text(l, "prev_hash", at->prev_hash);
	if (at->lost != 0)
		key_num(l, "lost", at->lost);
}

int judge_line(const struct judge *j, const struct judge_record *r, const struct judge_who *who, const struct judge_place *at,
	       struct buf *out)
{
	struct line l = {.b = out};

	put_head(&l, at);
	put_verdict(&l, j, r);
	put_who(&l, who);
	key_text(&l, "transport", r->transport);
	key_peer(&l, "src", r->src);
	if (r->uid != NULL)
		key_num(&l, "uid_hint", *r->uid);
	if (r->asked != NULL) {
		key(&l, "name");
		put_text(&l, r->asked, r->asked_n, TEXT_MAX);
	}
	if (r->dest != NULL)
		put_where(&l, r);
	if (r->hello != NULL)
		put_hello(&l, r->hello);
	if (r->req != NULL)
		put_request(&l, r->req);
	key_true(&l, "fronting_possible", r->fronting);
	if (r->resolved != NULL)
		put_resolved(&l, r);
	key_addr(&l, "dialed", r->dialed);
	key_peer(&l, "proxy", r->proxy);
	key_peer(&l, "local_out", r->local_out);
	if (r->close_reason != NULL)
		put_end(&l, r);
	key_text(&l, "text", r->text);
	if (r->suppressed != 0)
		key_num(&l, "suppressed", r->suppressed);
	put(&l, "}\n");
	return l.err;
}
