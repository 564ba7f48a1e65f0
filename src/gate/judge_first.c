#include "gate/judge_priv.h"

#include <string.h>

/*
 * The first bytes of a client against what its rule says they are. They are the sandbox's. Never more is
 * concluded from them than "not what was permitted": where the connection goes is decided already.
 */

/* ---- bytes that may not all be there yet ---- */

struct view {
	const uint8_t *p;
	size_t n;
};

static bool cut(struct view *v, size_t n, struct view *ret)
{
	if (n > v->n)
		return false;
	*ret = (struct view){v->p, n};
	v->p += n;
	v->n -= n;
	return true;
}

static bool cut_num(struct view *v, size_t bytes, size_t *ret)
{
	struct view x;

	if (!cut(v, bytes, &x))
		return false;
	*ret = 0;
	for (size_t i = 0; i < bytes; i++)
		*ret = *ret << 8 | x.p[i];
	return true;
}

static bool cut_vec(struct view *v, size_t bytes, struct view *ret)
{
	size_t n;

	return cut_num(v, bytes, &n) && cut(v, n, ret);
}

static bool same_name(const char *want, const uint8_t *p, size_t n, char *copy)
{
	char canon[JUDGE_NAME_MAX + 1];
	int len;

	n = MIN(n, (size_t)255);
	memcpy(copy, p, n);
	copy[n] = '\0';
	if (memchr(p, 0, n) != NULL)
		return false;
	len = name_canon(copy, n, 1, canon);
	return len > 0 && strcmp(canon, want) == 0;
}

/* ---- TLS: RFC 8446 4.1.2, RFC 6066 3 ---- */

enum { RECORD_HANDSHAKE = 22, CLIENT_HELLO = 1, EXT_SNI = 0, EXT_ALPN = 16, EXT_ECH = 0xfe0d, HELLO_BYTES_MAX = 65536 };

/* The handshake message put together from its records: 1 = whole, 0 = more is needed, -1 = not TLS. */
static int join_records(const uint8_t *p, size_t n, uint8_t *out, size_t *ret_n)
{
	size_t have = 0, at = 0, want = 4;

	while (have < want) {
		size_t len;

		if (n - at < 5)
			return n - at > 0 && p[at] != RECORD_HANDSHAKE ? -1 : 0;
		len = (size_t)(p[at + 3] << 8 | p[at + 4]);
		if (p[at] != RECORD_HANDSHAKE || p[at + 1] != 3 || len == 0 || len > 16384)
			return -1;
		at += 5;
		for (size_t i = 0; i < len && have < want; i++) {
			if (at + i >= n)
				return 0;
			out[have++] = p[at + i];
			if (have == 4) {
				want = 4 + ((size_t)out[1] << 16 | (size_t)out[2] << 8 | out[3]);
				if (out[0] != CLIENT_HELLO || want > HELLO_BYTES_MAX)
					return -1;
			}
		}
		if (n - at < len && have < want)
			return 0;
		at += MIN(len, n - at);
	}
	*ret_n = want;
	return 1;
}

/* The protocols a client offers (RFC 7301 3.1), with commas between, for the record only. */
static bool read_alpn(struct view body, char *out, size_t size)
{
	struct view list, name;
	size_t at = 0;

	if (!cut_vec(&body, 2, &list) || body.n != 0)
		return false;
	while (list.n > 0) {
		if (!cut_vec(&list, 1, &name) || name.n == 0)
			return false;
		if (at + name.n + 2 > size)
			continue;
		if (at > 0)
			out[at++] = ',';
		for (size_t i = 0; i < name.n; i++)
			out[at++] = name.p[i] > 0x20 && name.p[i] < 0x7f ? (char)name.p[i] : '?';
		out[at] = '\0';
	}
	return true;
}

/* must: a name has to be there. */
static int read_extensions(struct view exts, const char *want, bool must, bool ech_ok, const char **reason,
			   struct judge_hello *h)
{
	bool seen = false, good = !must;

	while (exts.n > 0) {
		struct view body, list, name;
		size_t type, kind;

		if (!cut_num(&exts, 2, &type) || !cut_vec(&exts, 2, &body))
			return -1;
		if (type == EXT_ECH)
			h->ech = true;
		if (type == EXT_ALPN && !read_alpn(body, h->alpn, sizeof(h->alpn)))
			return -1;
		if (type != EXT_SNI)
			continue;
		if (seen || !cut_vec(&body, 2, &list) || body.n != 0 || !cut_num(&list, 1, &kind) || kind != 0 ||
		    !cut_vec(&list, 2, &name) || list.n != 0)
			return -1;
		seen = true;
		good = same_name(want, name.p, name.n, h->sni);
	}
	if (h->ech && !ech_ok) {
		*reason = "ech";
		return -1;
	}
	*reason = seen ? "sni_mismatch" : "sni_missing";
	return good ? 1 : -1;
}

static int check_tls(const char *want, bool must, bool ech_ok, const uint8_t *p, size_t n, const char **reason,
		     struct judge_hello *h)
{
	static uint8_t hello[HELLO_BYTES_MAX]; /* of the one thread */
	struct view v = {hello, 0}, x;
	int r = join_records(p, n, hello, &v.n);

	*reason = "hello_unparsable";
	if (r <= 0)
		return r;
	/* type and length; version and random; session; suites; compression */
	if (!cut(&v, 4, &x) || !cut(&v, 34, &x) || !cut_vec(&v, 1, &x) || !cut_vec(&v, 2, &x) || !cut_vec(&v, 1, &x))
		return -1;
	if (!cut_vec(&v, 2, &x) || v.n != 0)
		return -1;
	return read_extensions(x, want, must, ech_ok, reason, h);
}

/* ---- HTTP/1.1 head: RFC 9112 ---- */

static bool is_host(const uint8_t *p, size_t n)
{
	return n >= 5 && (p[0] | 32) == 'h' && (p[1] | 32) == 'o' && (p[2] | 32) == 's' && (p[3] | 32) == 't' &&
	       p[4] == ':';
}

/* Host's value: the name, and the port if one is given. */
static bool host_is(const struct judge_dest *d, const uint8_t *p, size_t n, char *seen)
{
	const uint8_t *colon;
	size_t port = 0;

	while (n > 0 && (*p == ' ' || *p == '\t'))
		p++, n--;
	while (n > 0 && (p[n - 1] == ' ' || p[n - 1] == '\t'))
		n--;
	colon = memchr(p, ':', n);
	if (colon != NULL) {
		size_t digits = (size_t)(p + n - colon) - 1;

		if (digits == 0 || digits > 5)
			return false;
		for (size_t i = 1; i <= digits; i++) {
			if (colon[i] < '0' || colon[i] > '9')
				return false;
			port = port * 10 + (size_t)(colon[i] - '0');
		}
		if (port != d->port)
			return false;
		n = (size_t)(colon - p);
	}
	return same_name(d->name, p, n, seen);
}

/* A field's name is a token with the colon right behind it: "Host :" is another Host to some servers. */
static bool is_field(const uint8_t *p, size_t n)
{
	static const char others[] = "!#$%&'*+-.^_`|~";
	size_t i = 0;

	while (i < n && ((p[i] >= '0' && p[i] <= '9') || ((p[i] | 32) >= 'a' && (p[i] | 32) <= 'z') ||
			 (p[i] != 0 && strchr(others, p[i]) != NULL)))
		i++;
	return i > 0 && i < n && p[i] == ':';
}

static int check_http(const struct judge_dest *d, const uint8_t *p, size_t n, const char **reason, char *seen)
{
	const uint8_t *end = memmem(p, n, "\r\n\r\n", 4);
	const uint8_t *line, *space;
	int hosts = 0;
	bool good = false;

	*reason = "http_unparsable";
	for (size_t i = 0; i < MIN(n, (size_t)16); i++) /* a method comes first: never wait on something else */
		if (p[i] == ' ' && i > 0)
			break;
		else if ((p[i] < 'A' || p[i] > 'Z') && p[i] != '-')
			return -1;
	if (end == NULL)
		return 0;
	for (const uint8_t *c = p; c < end; c++)
		if (*c == 0 || (*c == '\n' && (c == p || c[-1] != '\r')) || (*c == '\r' && c[1] != '\n'))
			return -1;
	line = memmem(p, (size_t)(end + 2 - p), "\r\n", 2);
	space = memchr(p, ' ', (size_t)(line - p));
	if (space == NULL || space[1] != '/')
		return -1; /* only what asks this server for a path: no CONNECT, no other authority */
	while (line < end) {
		const uint8_t *s = line + 2, *stop = memmem(s, (size_t)(end + 2 - s), "\r\n", 2);

		if (stop == s)
			break; /* the empty line */
		if (!is_field(s, (size_t)(stop - s)))
			return -1; /* a folded line too */
		if (is_host(s, (size_t)(stop - s))) {
			hosts++;
			good = host_is(d, s + 5, (size_t)(stop - s) - 5, seen);
		}
		line = stop;
	}
	*reason = hosts == 1 ? "host_mismatch" : "http_unparsable";
	return hosts == 1 && good ? 1 : -1;
}

/* ---- SSH: RFC 4253 4.2; PostgreSQL: its manual, 55.7 ---- */

static int check_start(const uint8_t *p, size_t n, const char *want)
{
	size_t len = strlen(want);

	if (memcmp(p, want, MIN(n, len)) != 0)
		return -1;
	return n >= len ? 1 : 0;
}

static int check_postgres(const uint8_t *p, size_t n, struct judge_hello *h)
{
	struct view v = {p, n};
	size_t len, code;

	if (!cut_num(&v, 4, &len) || !cut_num(&v, 4, &code))
		return 0;
	h->tls_next = len == 8 && code == 80877103;
	if (h->tls_next || (len == 8 && code == 80877104)) /* asks for TLS or GSS, and waits for one byte */
		return n == 8 ? 1 : -1;
	return len >= 8 && len <= 10000 && code >> 16 == 3 ? 1 : -1;
}

int judge_first(enum judge_check c, const struct judge_verdict *v, const struct judge_dest *d, const uint8_t *p,
		size_t n, const char **reason, struct judge_hello *ret)
{
	*reason = "proto_mismatch";
	*ret = (struct judge_hello){.ech = false};
	switch (c) {
	case CHECK_NONE:
		return 1;
	case CHECK_TLS:
	case CHECK_POSTGRES_TLS:
		return check_tls(d->name, c == CHECK_TLS, v->ech_allow, p, n, reason, ret);
	case CHECK_HTTP:
		return check_http(d, p, n, reason, ret->sni);
	case CHECK_SSH:
		return check_start(p, n, "SSH-2.0-");
	case CHECK_POSTGRES:
		return check_postgres(p, n, ret);
	}
	return -1;
}
