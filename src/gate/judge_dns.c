#include "gate/judge_priv.h"

#include <errno.h>
#include <string.h>

/*
 * DNS, the server's side (RFC 1035; RFC 3596; RFC 6891 for the OPT record that a question may carry). A message is one
 * question and is never forwarded: its name, in one form, is looked up in the rules, and the answer is made here.
 *
 *   A of an allowed name (AAAA too, when the rules say so): its made-up address. A name that a rule spells out is resolved
 *   first, for the question carries nothing out that the rule did not; below a wildcard the name is the sandbox's
 *   choice, so it is resolved when it is connected to.
 *   Where the rules say "pinned", the name's real addresses instead, which then stand for it.
 *   Other types of an allowed name: no data.    Everything else: no such name. (Refusing would make C libraries ask
 *   elsewhere or stop.)
 */

enum { HEAD = 12, TYPE_A = 1, TYPE_PTR = 12, TYPE_AAAA = 28, TYPE_IXFR = 251, TYPE_AXFR = 252, CLASS_IN = 1 };
enum { RCODE_OK = 0, RCODE_FORMAT = 1, RCODE_SERVFAIL = 2, RCODE_NXDOMAIN = 3, RCODE_NOTIMP = 4 };

static uint16_t be16(const uint8_t *p) { return (uint16_t)(p[0] << 8 | p[1]); }

static uint8_t *put16(uint8_t *p, uint32_t v)
{
	p[0] = (uint8_t)(v >> 8);
	p[1] = (uint8_t)v;
	return p + 2;
}

/* The question's name: its labels with dots between into out (255 at most). A byte that no name has, a dot inside a
 * label above all, makes it *bad. Bytes of the message used, or -EBADMSG. */
static int read_name(const uint8_t *p, size_t n, char *out, size_t *ret_n, bool *bad)
{
	size_t at = 0, to = 0;

	for (;;) {
		size_t len;

		if (at >= n)
			return -EBADMSG;
		len = p[at++];
		if (len == 0)
			break;
		if (len > 63 || len > n - at || to + len + 1 > 254)
			return -EBADMSG; /* a pointer has nothing to point to in a first name */
		if (to > 0)
			out[to++] = '.';
		for (size_t i = 0; i < len; i++) {
			uint8_t c = p[at + i];

			*bad |= c <= 0x20 || c >= 0x7f || c == '.';
			out[to++] = (char)c;
		}
		at += len;
	}
	*ret_n = to;
	return (int)at;
}

/* Where the answer goes. */
struct reply {
	const uint8_t *q;
	size_t question_n; /* bytes of the question, 0 = leave it out */
	uint8_t *out;
	size_t size;
	uint32_t ttl_s;
};

/* n addresses of the type's size; as many as there is room for. */
static size_t finish_all(const struct reply *r, uint32_t rcode, uint32_t type, const struct resolve_addr *addr, uint32_t n)
{
	uint8_t *p = r->out;
	size_t len = type == TYPE_AAAA ? 16 : 4, room = r->size < HEAD + r->question_n ? 0 : r->size - HEAD - r->question_n;

	if (r->size < HEAD + r->question_n || (n > 0 && room < 12 + len))
		return 0;
	n = (uint32_t)MIN((size_t)n, room / (12 + len));
	memcpy(p, r->q, 2);
	p = put16(p + 2, 0x8400u | 0x0080u | (be16(r->q + 2) & 0x0100u) | rcode); /* QR AA RA, RD as asked */
	p = put16(p, r->question_n > 0 ? 1 : 0);
	p = put16(p, n);
	p = put16(p, 0);
	p = put16(p, 0);
	memcpy(p, r->q + HEAD, r->question_n);
	p += r->question_n;
	for (uint32_t i = 0; i < n; i++) {
		p = put16(p, 0xc000u | HEAD);
		p = put16(p, type);
		p = put16(p, CLASS_IN);
		p = put16(p, r->ttl_s >> 16);
		p = put16(p, r->ttl_s);
		p = put16(p, (uint32_t)len);
		memcpy(p, addr[i].a, len);
		p += len;
	}
	return (size_t)(p - r->out);
}

static size_t finish(const struct reply *r, uint32_t rcode) { return finish_all(r, rcode, 0, NULL, 0); }

static size_t deny(const struct reply *r, struct judge_dns *ret, const char *reason, const char *rule)
{
	ret->denied = true;
	ret->reason = reason;
	if (rule != NULL)
		memcpy(ret->rule, rule, strnlen(rule, JUDGE_ID_MAX));
	return finish(r, RCODE_NXDOMAIN);
}

static size_t failed(const struct reply *re, const struct resolve_result *res, const struct rule *rule, struct judge_dns *ret)
{
	size_t size = deny(re, ret, "unresolved", rule->id);

	return res->err == ENOENT ? size : finish(re, RCODE_SERVFAIL);
}

/* The name's number, made now if it must be. -1 with the answer's size in *size: a refusal, or none yet. */
static int number_of(struct judge *j, const struct reply *re, const struct resolve_result *res, struct rule *rule,
		     size_t len, struct judge_dns *ret, size_t *size)
{
	const char *reason = NULL;
	int nr = names_find(j, ret->name, len);

	*size = 0;
	if (nr >= 0)
		return nr;
	if (rule->kind == RULE_EXACT && res == NULL && (rule->direct || !j->proxy.names)) {
		ret->wait = true;
		return -1;
	}
	if (rule->kind == RULE_EXACT && res != NULL && res->err != 0) {
		*size = failed(re, res, rule, ret);
		return -1;
	}
	if (names_add(j, rule, ret->name, len, &reason) < 0) {
		*size = deny(re, ret, reason, rule->id);
		return -1;
	}
	return (int)j->names_n - 1;
}

/* With what the name stands for, which stands for the name from now on. A name of the sandbox's choice is counted before it
 * is asked for: each goes upstream. Addresses nothing opens are left out; the others are judged when they are connected to. */
static size_t answer_pinned(struct judge *j, const struct reply *re, uint16_t type, const struct resolve_result *res,
			    struct rule *rule, size_t len, struct judge_dns *ret)
{
	struct resolve_addr given[RESOLVE_ADDRS_MAX];
	int nr = names_find(j, ret->name, len);
	const char *reason = NULL;
	uint32_t n = 0, of_type = 0;

	if (nr < 0 && (res != NULL ? res->err == 0 : rule->kind != RULE_EXACT)) {
		if (names_add(j, rule, ret->name, len, &reason) < 0)
			return deny(re, ret, reason, rule->id);
		nr = (int)j->names_n - 1;
	}
	ret->wait = res == NULL;
	if (res == NULL)
		return 0;
	if (res->err != 0 || nr < 0)
		return failed(re, res, rule, ret);
	for (uint32_t i = 0; i < res->n; i++) {
		if (res->addr[i].v6 != (type == TYPE_AAAA))
			continue;
		of_type++;
		if (floor_of(&res->addr[i]) != FLOOR_NEVER && pins_add(j, &res->addr[i], (uint32_t)nr))
			given[n++] = res->addr[i];
	}
	return n == 0 && of_type > 0 ? deny(re, ret, "addr_floor", rule->id) : finish_all(re, RCODE_OK, type, given, n);
}

static size_t answer(struct judge *j, const struct reply *re, uint16_t type, const struct resolve_result *res,
		     struct rule *rule, size_t len, struct judge_dns *ret)
{
	struct resolve_addr a = {.v6 = type == TYPE_AAAA};
	size_t size;
	int nr;

	if (type != TYPE_A && (type != TYPE_AAAA || !j->dns.aaaa))
		return finish(re, RCODE_OK); /* no data: nothing is asked of anybody, nothing counted */
	if (j->dns.pinned)
		return answer_pinned(j, re, type, res, rule, len, ret);
	nr = number_of(j, re, res, rule, len, ret, &size);
	if (nr < 0)
		return size;
	if (type == TYPE_A)
		names_addr4(j, (uint32_t)nr, a.a);
	else
		names_addr6(j, (uint32_t)nr, a.a);
	return finish_all(re, RCODE_OK, type, &a, 1);
}

/* NOLINTNEXTLINE(readability-non-const-parameter): out is written through re */
size_t judge_dns_resolved(struct judge *j, const uint8_t *q, size_t n, const struct resolve_result *res, uint8_t *out,
			  size_t size, struct judge_dns *ret)
{
	struct reply re = {.q = q, .out = out, .size = size, .ttl_s = j->dns.ttl_s};
	const char *reason, *by;
	struct rule *rule;
	bool bad = false;
	uint16_t type;
	int used, len;

	*ret = (struct judge_dns){.denied = false};
	if (n < HEAD || (q[2] & 0x80) != 0)
		return 0; /* no question: an answer to it could go round in circles */
	if ((q[2] & 0x78) != 0)
		return finish(&re, RCODE_NOTIMP);
	if (be16(q + 4) != 1 || be16(q + 6) != 0 || be16(q + 8) != 0)
		return finish(&re, RCODE_FORMAT);
	used = read_name(q + HEAD, n - HEAD, ret->asked, &ret->asked_n, &bad);
	if (used < 0 || n - HEAD - (size_t)used < 4)
		return finish(&re, RCODE_FORMAT);
	re.question_n = (size_t)used + 4;
	type = be16(q + HEAD + used);
	len = bad ? -EINVAL : name_canon(ret->asked, ret->asked_n, j->single ? 1 : 2, ret->name);
	if (len < 0) {
		ret->name[0] = '\0';
		return deny(&re, ret, "bad_name", NULL);
	}
	if (be16(q + HEAD + used + 2) != CLASS_IN || type == TYPE_AXFR || type == TYPE_IXFR || type == TYPE_PTR)
		return deny(&re, ret, "dns_type", NULL);
	rule = names_permit(j, ret->name, (size_t)len, &reason, &by);
	if (rule == NULL)
		return deny(&re, ret, reason, by);
	return answer(j, &re, type, res, rule, (size_t)len, ret);
}

size_t judge_dns(struct judge *j, const uint8_t *q, size_t n, uint8_t *out, size_t size, struct judge_dns *ret)
{
	return judge_dns_resolved(j, q, n, NULL, out, size, ret);
}
