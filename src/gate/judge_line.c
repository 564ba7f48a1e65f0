#include "gate/judge_priv.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

/* One decision as one JSON line (RFC 8259). Text that came from a sandbox or a server is cut at 253 bytes, and every
 * byte of it outside printable ASCII is escaped, so that a line is a line whatever they sent. */

static int put(struct buf *b, const char *s) { return buf_put(b, s, strlen(s)); }

static int put_text(struct buf *b, const char *s, size_t n)
{
	int r = put(b, "\"");

	for (size_t i = 0; r == 0 && i < MIN(n, (size_t)JUDGE_NAME_MAX); i++) {
		unsigned char c = (unsigned char)s[i];
		char esc[8];

		if (c >= 0x20 && c < 0x7f && c != '"' && c != '\\')
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

static int key_text(struct buf *b, const char *k, const char *s)
{
	int r;

	if (s == NULL)
		return 0;
	r = key(b, k);
	return r < 0 ? r : put_text(b, s, strlen(s));
}

static int key_num(struct buf *b, const char *k, uint64_t v)
{
	char num[24];
	int r = key(b, k);

	(void)snprintf(num, sizeof(num), "%llu", (unsigned long long)v);
	return r < 0 ? r : put(b, num);
}

static const char *addr_text(const struct resolve_addr *a, char out[INET6_ADDRSTRLEN])
{
	return inet_ntop(a->v6 ? AF_INET6 : AF_INET, a->a, out, INET6_ADDRSTRLEN);
}

static int put_where(struct buf *b, const struct judge_dest *d)
{
	char text[INET6_ADDRSTRLEN];
	int r = key_text(b, "dst_kind", d->named ? "name" : "addr");

	if (r == 0 && d->named)
		r = key_text(b, "name", d->name);
	if (r == 0)
		r = key_text(b, "orig_dst", addr_text(&d->orig, text));
	return r < 0 ? r : key_num(b, "dst_port", d->port);
}

static int put_resolved(struct buf *b, const struct resolve_result *res)
{
	char text[INET6_ADDRSTRLEN];
	int r = key(b, "resolved");

	for (uint32_t i = 0; r == 0 && i < res->n; i++) {
		r = put(b, i == 0 ? "[" : ",");
		if (r == 0)
			r = put_text(b, addr_text(&res->addr[i], text), strlen(text));
	}
	if (r == 0)
		r = put(b, res->n > 0 ? "]" : "[]");
	if (r == 0 && res->cnames_n > 0)
		r = key(b, "cname_chain");
	for (uint32_t i = 0; r == 0 && i < res->cnames_n; i++) {
		r = put(b, i == 0 ? "[" : ",");
		if (r == 0)
			r = put_text(b, res->cname[i], strlen(res->cname[i]));
	}
	return r == 0 && res->cnames_n > 0 ? put(b, "]") : r;
}

static int put_end(struct buf *b, const struct judge_record *r)
{
	int ret = key_text(b, "close_reason", r->close_reason);

	if (ret == 0 && r->close_reason != NULL)
		ret = key_num(b, "bytes_up", r->bytes_up);
	if (ret == 0 && r->close_reason != NULL)
		ret = key_num(b, "bytes_down", r->bytes_down);
	if (ret == 0 && r->close_reason != NULL)
		ret = key_num(b, "dur_ms", r->dur_ms);
	return ret;
}

int judge_line(const struct judge_record *r, const char *sandbox, const char *tier, uint64_t seq, struct buf *out)
{
	char head[96], text[INET6_ADDRSTRLEN];
	struct timespec t;
	struct tm tm;
	int ret;

	(void)clock_gettime(CLOCK_REALTIME, &t);
	(void)gmtime_r(&t.tv_sec, &tm);
	(void)snprintf(head, sizeof(head), "{\"ts\":\"%04d-%02d-%02dT%02d:%02d:%02d.%03ldZ\",\"seq\":%llu",
		       tm.tm_year + 1900, tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec,
		       t.tv_nsec / 1000000, (unsigned long long)seq);
	ret = put(out, head);
	if (ret == 0)
		ret = key_text(out, "event", r->event);
	if (ret == 0)
		ret = key_text(out, "verdict", r->allow ? "allow" : "deny");
	if (ret == 0)
		ret = key_text(out, "reason", r->reason);
	if (ret == 0)
		ret = key_text(out, "rule_id", r->rule);
	if (ret == 0)
		ret = key_text(out, "sandbox_id", sandbox);
	if (ret == 0)
		ret = key_text(out, "tier", tier);
	if (ret == 0)
		ret = key_text(out, "transport", r->transport);
	if (ret == 0 && r->asked != NULL)
		ret = key(out, "name") < 0 ? -ENOBUFS : put_text(out, r->asked, r->asked_n);
	if (ret == 0 && r->dest != NULL)
		ret = put_where(out, r->dest);
	if (ret == 0)
		ret = key_text(out, "sni", r->sni);
	if (ret == 0 && r->resolved != NULL)
		ret = put_resolved(out, r->resolved);
	if (ret == 0 && r->dialed != NULL)
		ret = key_text(out, "dialed", addr_text(r->dialed, text));
	if (ret == 0)
		ret = put_end(out, r);
	return ret < 0 ? ret : put(out, "}\n");
}
