#include "gate/judge_priv.h"

#include "base/base64.h"
#include "base/cleanup.h"
#include "parse/http.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

/*
 * A proxy on the way out (RFC 9110 9.3.6), which the rules name and nobody inside can. Everything is decided before it is
 * asked, and it is asked for the address that was judged: what a name stands for there is nobody's business, unless the rules trust
 * it with names. Whoever answers may be an enemy all the same: the head is read strictly, and what is odd is no tunnel.
 */

static bool parse_number(const char *s, size_t n, uint16_t *ret)
{
	uint64_t v;

	if (!num_parse(s, n, UINT16_MAX, &v) || v == 0)
		return false;
	*ret = (uint16_t)v;
	return true;
}

/* ADDRESS:PORT or [ADDRESS]:PORT, of one host. */
static bool parse_peer(const char *s, size_t n, struct judge_peer *ret)
{
	const char *colon = memrchr(s, ':', n);
	size_t host_n = colon != NULL ? (size_t)(colon - s) : 0;
	struct net_of net;

	if (host_n < 2 || !parse_number(colon + 1, n - host_n - 1, &ret->port))
		return false;
	if (s[0] == '[' && s[host_n - 1] == ']') {
		s++;
		host_n -= 2;
	}
	if (net_parse(s, host_n, &net) < 0 || net.bits != (net.net.v6 ? 128u : 32u))
		return false;
	ret->addr = net.net;
	if (net.net.v6)
		return net.net.a[0] != 0xff && memcmp(net.net.a, (const uint8_t[16]){0}, 16) != 0;
	return net.net.a[0] != 0 && net.net.a[0] < 224;
}

static bool is(const char *s, size_t n, const char *word) { return strlen(word) == n && memcmp(s, word, n) == 0; }

bool proxy_line(struct judge_proxy *p, const char *s, size_t n)
{
	const char *sp = memchr(s, ' ', n);
	size_t k = sp != NULL ? (size_t)(sp - s) : 0, rest = sp != NULL ? n - k - 1 : 0;

	if (rest == 0)
		return false;
	sp++;
	if (is(s, k, "address")) { /* another proxy: what was said of the one before is not for it */
		proxy_done(p);
		return parse_peer(sp, rest, &p->at);
	}
	if (p->at.port == 0)
		return false;
	if (is(s, k, "names")) {
		p->names = is(sp, rest, "proxy");
		return p->names || is(sp, rest, "gate");
	}
	if (!is(s, k, "credentials") || p->secret != NULL || rest > 256)
		return false;
	p->secret = strndup(sp, rest);
	return p->secret != NULL;
}

void proxy_done(struct judge_proxy *p)
{
	free(p->secret);
	*p = (struct judge_proxy){.names = false};
}

const struct judge_proxy *judge_proxy(const struct judge *j) { return j->proxy.at.port != 0 ? &j->proxy : NULL; }

const struct judge_proxy *judge_via(const struct judge *j, const struct judge_verdict *v)
{
	const struct rule *r = &j->rules[v->rule_nr];

	return r->direct || r->local ? NULL : judge_proxy(j);
}

int judge_proxy_ask(const struct judge_dest *d, const struct resolve_addr *to, const char *user_password, struct buf *out)
{
	char addr[INET6_ADDRSTRLEN], where[JUDGE_NAME_MAX + 16], head[JUDGE_NAME_MAX * 2 + 128];
	_cleanup_free_ char *code = NULL;
	int n, r;

	if (to != NULL)
		(void)inet_ntop(to->v6 ? AF_INET6 : AF_INET, to->a, addr, sizeof(addr));
	(void)snprintf(where, sizeof(where), to != NULL && to->v6 ? "[%s]:%u" : "%s:%u", to != NULL ? addr : d->name, d->port);
	n = snprintf(head, sizeof(head), "CONNECT %s HTTP/1.1\r\nHost: %s\r\n", where, where);
	r = buf_put(out, head, (size_t)n);
	if (r == 0 && user_password != NULL) {
		code = base64_encode(user_password, strlen(user_password));
		r = code == NULL ? -ENOMEM : buf_put(out, "Proxy-Authorization: Basic ", 27);
		if (r == 0)
			r = buf_put(out, code, strlen(code));
		if (r == 0)
			r = buf_put(out, "\r\n", 2);
		if (code != NULL)
			explicit_bzero(code, strlen(code));
	}
	return r < 0 ? r : buf_put(out, "\r\n", 2);
}

ssize_t judge_proxy_answer(const uint8_t *p, size_t n, uint32_t *status)
{
	static struct http_head h; /* of the one thread */
	const char *why = NULL;
	ssize_t size = http_parse(p, MIN(n, (size_t)PROXY_ANSWER_MAX), false, &h, &why);

	*status = 0;
	if (memcmp(p, "HTTP/1.", MIN(n, (size_t)7)) != 0)
		return -EBADMSG; /* another protocol, which may never have an empty line */
	if (size == 0)
		return n >= PROXY_ANSWER_MAX ? -EBADMSG : 0;
	if (size < 0 || h.status < 200)
		return -EBADMSG;
	*status = h.status;
	if (h.status >= 300)
		return -ECONNREFUSED;
	/* a body in front of the tunnel: some would skip it, some would not */
	if (h.body == HTTP_CHUNKED || (h.body == HTTP_LENGTH && h.length != 0) || h.upgrade.n != 0)
		return -EBADMSG;
	return size;
}
