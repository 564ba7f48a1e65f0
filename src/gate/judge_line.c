#include "gate/judge_priv.h"

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

/* Quoted, at most room bytes between the quotes. */
static void put_text(struct line *l, const char *s, size_t n, size_t room)
{
	put(l, "\"");
	for (size_t i = 0; i < n; i++) {
		unsigned char c = (unsigned char)s[i];
		bool plain = c >= 0x20 && c < 0x7f && c != '"' && c != '\\';
		char esc[8];

		if (room < (plain ? 1 : 6))
			break;
		room -= plain ? 1 : 6;
		if (plain)
			put_n(l, &s[i], 1);
		else
			put_n(l, esc, (size_t)snprintf(esc, sizeof(esc), "\\u%04x", c));
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

static void key_num(struct line *l, const char *k, uint64_t v)
{
	char num[24];

	(void)snprintf(num, sizeof(num), "%llu", (unsigned long long)v);
	key(l, k);
	put(l, num);
}

static void key_true(struct line *l, const char *k, bool v)
{
	if (!v)
		return;
	key(l, k);
	put(l, "true");
}

static const char *addr_text(const struct resolve_addr *a, char out[INET6_ADDRSTRLEN])
{
	return inet_ntop(a->v6 ? AF_INET6 : AF_INET, a->a, out, INET6_ADDRSTRLEN);
}

static void key_peer(struct line *l, const char *k, const struct judge_peer *p)
{
	char addr[INET6_ADDRSTRLEN], text[INET6_ADDRSTRLEN + 16];

	if (p == NULL)
		return;
	(void)snprintf(text, sizeof(text), p->addr.v6 ? "[%s]:%u" : "%s:%u", addr_text(&p->addr, addr), p->port);
	key_text(l, k, text);
}

static void put_where(struct line *l, const struct judge_record *r)
{
	const struct judge_dest *d = r->dest;
	char text[INET6_ADDRSTRLEN];
	bool ranged = !d->named && r->rule != NULL && r->rule[0] != '\0';

	key_text(l, "dst_kind", d->named ? "name" : "addr");
	if (d->named)
		key_text(l, "name", d->name);
	key_text(l, "name_source", d->pinned ? "pin" : d->named ? "synthetic" : ranged ? "cidr" : "none");
	key_text(l, "orig_dst", addr_text(&d->orig, text));
	key_num(l, "dst_port", d->port);
}

static void put_resolved(struct line *l, const struct judge_record *r)
{
	const struct resolve_result *res = r->resolved;
	char text[INET6_ADDRSTRLEN];
	size_t room = CNAMES_TEXT_MAX;

	key(l, "resolved");
	for (uint32_t i = 0; i < res->n; i++) {
		(void)addr_text(&res->addr[i], text);
		put(l, i == 0 ? "[" : ",");
		put_text(l, text, strlen(text), TEXT_MAX);
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

static void put_head(struct line *l, const struct judge_place *at)
{
	struct timespec t;
	struct tm tm;
	char head[96];

	(void)clock_gettime(CLOCK_REALTIME, &t);
	(void)gmtime_r(&t.tv_sec, &tm);
	(void)snprintf(head, sizeof(head), "{\"ts\":\"%04d-%02d-%02dT%02d:%02d:%02d.%03ldZ\",\"seq\":%llu",
		       tm.tm_year + 1900, tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec,
		       t.tv_nsec / 1000000, (unsigned long long)at->seq);
	put(l, head);
	key_text(l, "prev_hash", at->prev_hash);
	if (at->lost != 0)
		key_num(l, "lost", at->lost);
}

int judge_line(const struct judge *j, const struct judge_record *r, const struct judge_who *who, const struct judge_place *at,
	       struct buf *out)
{
	struct line l = {.b = out};
	char text[INET6_ADDRSTRLEN];

	put_head(&l, at);
	put_verdict(&l, j, r);
	put_who(&l, who);
	key_text(&l, "transport", r->transport);
	key_peer(&l, "src", r->src);
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
	if (r->dialed != NULL)
		key_text(&l, "dialed", addr_text(r->dialed, text));
	key_peer(&l, "local_out", r->local_out);
	if (r->close_reason != NULL)
		put_end(&l, r);
	key_text(&l, "text", r->text);
	if (r->suppressed != 0)
		key_num(&l, "suppressed", r->suppressed);
	put(&l, "}\n");
	return l.err;
}
