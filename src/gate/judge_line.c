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

enum { TEXT_MAX = 480, CNAMES_TEXT_MAX = 640 }; /* bytes of one text as written, of a chain of names */

static int put(struct buf *b, const char *s) { return buf_put(b, s, strlen(s)); }

/* Quoted, at most room bytes between the quotes. */
static int put_text(struct buf *b, const char *s, size_t n, size_t room)
{
	int r = put(b, "\"");

	for (size_t i = 0; r == 0 && i < n; i++) {
		unsigned char c = (unsigned char)s[i];
		bool plain = c >= 0x20 && c < 0x7f && c != '"' && c != '\\';
		char esc[8];

		if (room < (plain ? 1 : 6))
			break;
		room -= plain ? 1 : 6;
		if (plain)
			r = buf_put(b, &s[i], 1);
		else
			r = buf_put(b, esc, (size_t)snprintf(esc, sizeof(esc), "\\u%04x", c));
	}
	return r < 0 ? r : put(b, "\"");
}

static int key(struct buf *b, const char *k)
{
	int r = put(b, ",\"");

	if (r == 0)
		r = put(b, k);
	return r < 0 ? r : put(b, "\":");
}

/* What is not known is not written. */
static int key_text(struct buf *b, const char *k, const char *s)
{
	int r;

	if (s == NULL || s[0] == '\0')
		return 0;
	r = key(b, k);
	return r < 0 ? r : put_text(b, s, strlen(s), TEXT_MAX);
}

static int key_num(struct buf *b, const char *k, uint64_t v)
{
	char num[24];
	int r = key(b, k);

	(void)snprintf(num, sizeof(num), "%llu", (unsigned long long)v);
	return r < 0 ? r : put(b, num);
}

static int key_true(struct buf *b, const char *k, bool v)
{
	int r = v ? key(b, k) : 0;

	return r < 0 || !v ? r : put(b, "true");
}

static const char *addr_text(const struct resolve_addr *a, char out[INET6_ADDRSTRLEN])
{
	return inet_ntop(a->v6 ? AF_INET6 : AF_INET, a->a, out, INET6_ADDRSTRLEN);
}

static int key_peer(struct buf *b, const char *k, const struct judge_peer *p)
{
	char addr[INET6_ADDRSTRLEN], text[INET6_ADDRSTRLEN + 16];

	if (p == NULL)
		return 0;
	(void)snprintf(text, sizeof(text), p->addr.v6 ? "[%s]:%u" : "%s:%u", addr_text(&p->addr, addr), p->port);
	return key_text(b, k, text);
}

static int put_where(struct buf *b, const struct judge_record *rec)
{
	const struct judge_dest *d = rec->dest;
	char text[INET6_ADDRSTRLEN];
	bool ranged = !d->named && rec->rule != NULL && rec->rule[0] != '\0';
	int r = key_text(b, "dst_kind", d->named ? "name" : "addr");

	if (r == 0 && d->named)
		r = key_text(b, "name", d->name);
	if (r == 0)
		r = key_text(b, "name_source", d->named ? "synthetic" : ranged ? "cidr" : "none");
	if (r == 0)
		r = key_text(b, "orig_dst", addr_text(&d->orig, text));
	return r < 0 ? r : key_num(b, "dst_port", d->port);
}

static int put_resolved(struct buf *b, const struct judge_record *rec)
{
	const struct resolve_result *res = rec->resolved;
	char text[INET6_ADDRSTRLEN];
	size_t room = CNAMES_TEXT_MAX;
	int r = key(b, "resolved");

	for (uint32_t i = 0; r == 0 && i < res->n; i++) {
		(void)addr_text(&res->addr[i], text);
		r = put(b, i == 0 ? "[" : ",");
		if (r == 0)
			r = put_text(b, text, strlen(text), TEXT_MAX);
	}
	if (r == 0)
		r = put(b, res->n > 0 ? "]" : "[]");
	if (r == 0 && res->cnames_n > 0)
		r = key(b, "cname_chain");
	for (uint32_t i = 0; r == 0 && i < res->cnames_n; i++) {
		size_t before = b->len;

		r = put(b, i == 0 ? "[" : ",");
		if (r == 0)
			r = put_text(b, res->cname[i], strlen(res->cname[i]), room);
		room -= MIN(room, b->len - before);
	}
	if (r == 0 && res->cnames_n > 0)
		r = put(b, "]");
	return r == 0 && rec->dest != NULL && rec->dest->named ? key_num(b, "dns_ms", rec->dns_ms) : r;
}

static int put_hello(struct buf *b, const struct judge_hello *h)
{
	int r = key_text(b, "sni", h->sni);

	if (r == 0)
		r = key_text(b, "alpn", h->alpn);
	return r < 0 ? r : key_true(b, "ech", h->ech);
}

static int put_request(struct buf *b, const struct judge_req *q)
{
	int r = put(b, ",\"http\":{\"method\":");

	if (r == 0)
		r = put_text(b, q->method, strlen(q->method), HTTP_WORD_MAX);
	if (r == 0)
		r = key_text(b, "host", q->host);
	if (r == 0)
		r = key_text(b, "path", q->path);
	if (r == 0 && q->status != 0)
		r = key_num(b, "status", q->status);
	if (r == 0)
		r = put(b, "}");
	if (r < 0 || q->inject_header == NULL)
		return r;
	r = put(b, ",\"inject\":[{\"header\":");
	if (r == 0)
		r = put_text(b, q->inject_header, strlen(q->inject_header), TEXT_MAX);
	if (r == 0)
		r = key_text(b, "secret_ref", q->secret_ref);
	return r < 0 ? r : put(b, "}]");
}

static int put_end(struct buf *b, const struct judge_record *r)
{
	int ret = key_text(b, "close_reason", r->close_reason);

	if (ret == 0)
		ret = key_num(b, "bytes_up", r->bytes_up);
	if (ret == 0)
		ret = key_num(b, "bytes_down", r->bytes_down);
	if (ret == 0)
		ret = key_num(b, "dur_ms", r->dur_ms);
	return ret == 0 && r->local_out != NULL ? key_num(b, "connect_ms", r->connect_ms) : ret;
}

static int put_verdict(struct buf *b, const struct judge *j, const struct judge_record *r)
{
	const struct judge_reason *why = judge_reason(r->reason);
	enum judge_severity s = why != NULL ? why->severity : SEVERITY_MEDIUM;
	int ret = key_text(b, "event", r->event);

	if (ret == 0)
		ret = key_text(b, "verdict", r->allow ? "allow" : "deny");
	if (ret == 0)
		ret = key_text(b, "reason", r->reason);
	if (ret == 0)
		ret = key_text(b, "severity", judge_severity_name(r->allow ? SEVERITY_INFO : s));
	if (ret == 0)
		ret = key_text(b, "rule_id", r->rule);
	if (ret == 0)
		ret = key_true(b, "enforce_would_deny", r->would_deny);
	if (ret == 0)
		ret = key_true(b, "alert", r->alert);
	if (ret == 0)
		ret = key_num(b, "policy_gen", j->generation);
	if (ret == 0)
		ret = key_text(b, "policy_sha256", j->sha256);
	return ret;
}

static int put_who(struct buf *b, const struct judge_who *w)
{
	int r = key_text(b, "task_id", w->task);

	if (r == 0)
		r = key_text(b, "sandbox_id", w->sandbox);
	if (r == 0)
		r = key_text(b, "lifecycle_id", w->lifecycle);
	if (r == 0)
		r = key_text(b, "lineage_id", w->lineage);
	return r < 0 ? r : key_text(b, "tier", w->tier);
}

static int put_head(struct buf *b, uint64_t seq)
{
	struct timespec t;
	struct tm tm;
	char head[96];

	(void)clock_gettime(CLOCK_REALTIME, &t);
	(void)gmtime_r(&t.tv_sec, &tm);
	(void)snprintf(head, sizeof(head), "{\"ts\":\"%04d-%02d-%02dT%02d:%02d:%02d.%03ldZ\",\"seq\":%llu",
		       tm.tm_year + 1900, tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec,
		       t.tv_nsec / 1000000, (unsigned long long)seq);
	return put(b, head);
}

int judge_line(const struct judge *j, const struct judge_record *r, const struct judge_who *who, uint64_t seq,
	       struct buf *out)
{
	char text[INET6_ADDRSTRLEN];
	int ret = put_head(out, seq);

	if (ret == 0)
		ret = put_verdict(out, j, r);
	if (ret == 0)
		ret = put_who(out, who);
	if (ret == 0)
		ret = key_text(out, "transport", r->transport);
	if (ret == 0)
		ret = key_peer(out, "src", r->src);
	if (ret == 0 && r->asked != NULL)
		ret = key(out, "name") < 0 ? -ENOBUFS : put_text(out, r->asked, r->asked_n, TEXT_MAX);
	if (ret == 0 && r->dest != NULL)
		ret = put_where(out, r);
	if (ret == 0 && r->hello != NULL)
		ret = put_hello(out, r->hello);
	if (ret == 0 && r->req != NULL)
		ret = put_request(out, r->req);
	if (ret == 0)
		ret = key_true(out, "fronting_possible", r->fronting);
	if (ret == 0 && r->resolved != NULL)
		ret = put_resolved(out, r);
	if (ret == 0 && r->dialed != NULL)
		ret = key_text(out, "dialed", addr_text(r->dialed, text));
	if (ret == 0)
		ret = key_peer(out, "local_out", r->local_out);
	if (ret == 0 && r->close_reason != NULL)
		ret = put_end(out, r);
	if (ret == 0)
		ret = key_text(out, "text", r->text);
	if (ret == 0 && r->suppressed != 0)
		ret = key_num(out, "suppressed", r->suppressed);
	return ret < 0 ? ret : put(out, "}\n");
}
