#include "gate/judge_priv.h"

#include <errno.h>
#include <string.h>

/*
 * DNS, the server's side (RFC 1035; RFC 6891 for the OPT record that a question may carry). A message is one question
 * and is never forwarded: its name, in one form, is looked up in the rules, and the answer is made here.
 *
 *   A of an allowed name: its made-up address.    AAAA, HTTPS, SVCB, TXT, MX ... of an allowed name: no data.
 *   everything else: no such name. (Refusing would make C libraries ask elsewhere or stop.)
 */

enum { HEAD = 12, TYPE_A = 1, TYPE_PTR = 12, TYPE_AXFR = 252, CLASS_IN = 1, TTL = 30 };
enum { RCODE_OK = 0, RCODE_FORMAT = 1, RCODE_NXDOMAIN = 3, RCODE_NOTIMP = 4 };

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

static size_t finish(const uint8_t *q, size_t question_n, uint8_t *out, size_t size, uint32_t rcode, const uint8_t *a)
{
	uint8_t *p = out;

	if (size < HEAD + question_n + 16)
		return 0;
	memcpy(p, q, 2);
	p = put16(p + 2, 0x8400u | 0x0080u | (be16(q + 2) & 0x0100u) | rcode); /* QR AA RA, RD as asked */
	p = put16(p, question_n > 0 ? 1 : 0);
	p = put16(p, a != NULL ? 1 : 0);
	p = put16(p, 0);
	p = put16(p, 0);
	memcpy(p, q + HEAD, question_n);
	p += question_n;
	if (a != NULL) {
		p = put16(p, 0xc000u | HEAD);
		p = put16(p, TYPE_A);
		p = put16(p, CLASS_IN);
		p = put16(p, 0);
		p = put16(p, TTL);
		p = put16(p, 4);
		memcpy(p, a, 4);
		p += 4;
	}
	return (size_t)(p - out);
}

static void denied(struct judge_dns *ret, const char *reason)
{
	ret->denied = true;
	ret->reason = reason;
}

size_t judge_dns(struct judge *j, const uint8_t *q, size_t n, uint8_t *out, size_t size, struct judge_dns *ret)
{
	char name[JUDGE_NAME_MAX + 1];
	const char *reason = "no_rule";
	bool bad = false;
	uint8_t a[4];
	uint16_t type;
	size_t question_n;
	int used, len;

	*ret = (struct judge_dns){.denied = false};
	if (n < HEAD || (q[2] & 0x80) != 0)
		return 0; /* no question: an answer to it could go round in circles */
	if ((q[2] & 0x78) != 0)
		return finish(q, 0, out, size, RCODE_NOTIMP, NULL);
	if (be16(q + 4) != 1 || be16(q + 6) != 0 || be16(q + 8) != 0)
		return finish(q, 0, out, size, RCODE_FORMAT, NULL);
	used = read_name(q + HEAD, n - HEAD, ret->asked, &ret->asked_n, &bad);
	if (used < 0 || n - HEAD - (size_t)used < 4)
		return finish(q, 0, out, size, RCODE_FORMAT, NULL);
	question_n = (size_t)used + 4;
	type = be16(q + HEAD + used);
	len = bad ? -EINVAL : name_canon(ret->asked, ret->asked_n, name);
	if (len < 0) {
		denied(ret, "bad_name");
	} else if (be16(q + HEAD + used + 2) != CLASS_IN || type == TYPE_AXFR || type == TYPE_PTR) {
		denied(ret, "dns_type");
	} else if (judge_address(j, name, (size_t)len, a, &reason, &ret->rule) < 0) {
		denied(ret, reason);
	} else {
		return finish(q, question_n, out, size, RCODE_OK, type == TYPE_A ? a : NULL);
	}
	return finish(q, question_n, out, size, RCODE_NXDOMAIN, NULL);
}
