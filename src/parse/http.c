#include "parse/http.h"

#include "base/num.h"

#include <errno.h>
#include <string.h>

/*
 * A head is first found whole (the empty line), with every byte of it checked for what no head may
 * hold, then cut into lines at CR LF and each line into its parts. Lines never fold, names have no
 * space before their colon, one Host, one Content-Length or one Transfer-Encoding (which is
 * "chunked" and nothing else), never both.
 */

/* False, and why. */
static bool bad(const char **why, const char *what)
{
	*why = what;
	return false;
}

static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static char lower(char c) { return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c; }

static bool is_token_char(char c)
{
	static const char others[] = "!#$%&'*+-.^_`|~";

	return is_digit(c) || (lower(c) >= 'a' && lower(c) <= 'z') ||
	       (c != '\0' && strchr(others, c) != NULL);
}

size_t http_token(const char *p, size_t n)
{
	size_t i = 0;

	while (i < n && is_token_char(p[i]))
		i++;
	return i;
}

bool http_is(struct http_text t, const char *want)
{
	if (t.n != strlen(want))
		return false;
	for (size_t i = 0; i < t.n; i++)
		if (lower(t.p[i]) != want[i])
			return false;
	return true;
}

static struct http_text trim(const char *p, size_t n)
{
	while (n > 0 && (*p == ' ' || *p == '\t'))
		p++, n--;
	while (n > 0 && (p[n - 1] == ' ' || p[n - 1] == '\t'))
		n--;
	return (struct http_text){p, n};
}

/* Cut the next element of a comma-separated list. */
static bool next_word(struct http_text *list, struct http_text *ret)
{
	const char *comma;
	size_t n;

	if (list->n == 0)
		return false;
	comma = memchr(list->p, ',', list->n);
	n = comma != NULL ? (size_t)(comma - list->p) : list->n;
	*ret = trim(list->p, n);
	n += comma != NULL ? 1 : 0;
	list->p += n;
	list->n -= n;
	return true;
}

struct http_text http_find(const struct http_head *h, const char *name)
{
	for (uint32_t i = 0; i < h->fields_n; i++)
		if (http_is(h->field[i].name, name))
			return h->field[i].value;
	return (struct http_text){NULL, 0};
}

/* ---- start lines ---- */

/* "http://host/path" and "https://": cut the authority off. */
static bool cut_absolute(struct http_head *h, const char **why)
{
	static const char slash[] = "/";
	size_t skip = 0, n = 0;

	if (h->target.n > 7 && http_is((struct http_text){h->target.p, 7}, "http://"))
		skip = 7;
	else if (h->target.n > 8 && http_is((struct http_text){h->target.p, 8}, "https://"))
		skip = 8;
	if (skip == 0)
		return bad(why, "the form of the target");
	h->secure = skip == 8;
	while (skip + n < h->target.n && h->target.p[skip + n] != '/' &&
	       h->target.p[skip + n] != '?')
		n++;
	if (n == 0 || (skip + n < h->target.n && h->target.p[skip + n] == '?'))
		return bad(why, "the form of the target");
	h->authority = (struct http_text){h->target.p + skip, n};
	h->target.p += skip + n;
	h->target.n -= skip + n;
	if (h->target.n == 0)
		h->target = (struct http_text){slash, 1};
	return true;
}

static bool parse_version(const char *p, size_t n, struct http_head *h)
{
	if (n != 8 || memcmp(p, "HTTP/1.", 7) != 0 || (p[7] != '0' && p[7] != '1'))
		return false;
	h->minor = p[7] == '1';
	return true;
}

static bool parse_request(const char *p, size_t n, struct http_head *h, const char **why)
{
	const char *sp = memchr(p, ' ', n);
	size_t m = sp != NULL ? (size_t)(sp - p) : 0;

	for (size_t i = 0; i < m; i++)
		if ((p[i] < 'A' || p[i] > 'Z') && p[i] != '-' && p[i] != '_')
			return bad(why, "the method");
	h->method = (struct http_text){p, m};
	if (m == 0 || m > HTTP_METHOD_MAX || http_is(h->method, "connect"))
		return bad(why, "the method");
	p += m + 1;
	n -= m + 1;
	sp = memchr(p, ' ', n);
	if (sp == NULL || !parse_version(sp + 1, n - (size_t)(sp - p) - 1, h))
		return bad(why, "the version");
	h->target = (struct http_text){p, (size_t)(sp - p)};
	for (size_t i = 0; i < h->target.n; i++)
		if (p[i] <= 0x20 || p[i] >= 0x7f || p[i] == '#')
			return bad(why, "a byte of the target");
	if (h->target.n > 0 && p[0] == '/')
		return true;
	if (h->target.n == 1 && p[0] == '*')
		return (h->method.n == 7 && memcmp(h->method.p, "OPTIONS", 7) == 0) ||
		       bad(why, "the form of the target");
	return cut_absolute(h, why);
}

static bool parse_status(const char *p, size_t n, struct http_head *h, const char **why)
{
	/* "HTTP/1.1 200" and a reason; some servers leave its space out */
	if (n < 12 || !parse_version(p, 8, h) || p[8] != ' ' || !is_digit(p[9]) ||
	    !is_digit(p[10]) || !is_digit(p[11]) || (n > 12 && p[12] != ' '))
		return bad(why, "the status line");
	h->status = (uint16_t)((p[9] - '0') * 100 + (p[10] - '0') * 10 + (p[11] - '0'));
	if (n > 13)
		h->reason = (struct http_text){p + 13, n - 13};
	return (h->status >= 100 && h->status <= 599) || bad(why, "the status");
}

/* ---- fields ---- */

static bool parse_field(const char *p, size_t n, struct http_head *h, const char **why)
{
	size_t k = http_token(p, n);
	struct http_field *f = &h->field[h->fields_n];

	if (k == 0 || k > HTTP_LINE_MAX || k == n || p[k] != ':')
		return bad(why, n > 0 && (*p == ' ' || *p == '\t') ? "a folded line"
								   : "a field's name");
	f->name = (struct http_text){p, k};
	f->value = trim(p + k + 1, n - k - 1);
	h->fields_n++;
	return true;
}

static bool parse_length(struct http_text v, uint64_t *ret)
{
	*ret = 0;
	if (v.n == 0 || v.n > 18)
		return false;
	for (size_t i = 0; i < v.n; i++) {
		if (!is_digit(v.p[i]))
			return false;
		*ret = *ret * 10 + (uint64_t)(v.p[i] - '0');
	}
	return true;
}

static void read_connection(struct http_text v, struct http_head *h, bool *keep, bool *upgrade)
{
	struct http_text w;

	while (next_word(&v, &w)) {
		h->close |= http_is(w, "close");
		*keep |= http_is(w, "keep-alive");
		*upgrade |= http_is(w, "upgrade");
	}
}

/* What the fields say together about where the message ends and what becomes of the connection. */
static bool read_fields(struct http_head *h, bool request, const char **why)
{
	uint32_t hosts = 0, lengths = 0, codings = 0, upgrades = 0;
	bool keep = false, upgrade = false;
	struct http_text asked = {NULL, 0};

	for (uint32_t i = 0; i < h->fields_n; i++) {
		struct http_text name = h->field[i].name, v = h->field[i].value;

		if (http_is(name, "host")) {
			hosts++;
			h->host = v;
		} else if (http_is(name, "content-length")) {
			if (lengths++ > 0 || !parse_length(v, &h->length))
				return bad(why, "Content-Length");
			h->body = HTTP_LENGTH;
		} else if (http_is(name, "transfer-encoding")) {
			if (codings++ > 0 || !http_is(v, "chunked") || h->minor == 0)
				return bad(why, "Transfer-Encoding");
			h->body = HTTP_CHUNKED;
		} else if (http_is(name, "connection")) {
			read_connection(v, h, &keep, &upgrade);
		} else if (http_is(name, "upgrade")) {
			upgrades++;
			asked = v;
		} else if (request && http_is(name, "expect")) {
			if (!http_is(v, "100-continue"))
				return bad(why, "Expect");
			h->expect_continue = h->minor == 1;
		}
	}
	if (lengths > 0 && codings > 0)
		return bad(why, "two framings");
	if (request && hosts != 1)
		return bad(why, "Host");
	if (upgrades > 0 && (upgrades > 1 || asked.n == 0 || asked.n > HTTP_METHOD_MAX ||
			     memchr(asked.p, ',', asked.n) != NULL))
		return bad(why, "Upgrade");
	if (upgrades > 0 &&
	    (upgrade || request)) /* asked without Connection: somebody could take it seriously */
		h->upgrade = asked;
	h->close |= h->minor == 0 && !keep;
	return true;
}

bool http_list_has(struct http_text list, struct http_text word)
{
	struct http_text w;

	while (next_word(&list, &w)) {
		size_t k = 0;

		while (k < w.n && w.n == word.n && lower(w.p[k]) == lower(word.p[k]))
			k++;
		if (w.n > 0 && w.n == word.n && k == word.n)
			return true;
	}
	return false;
}

bool http_hop(struct http_text name)
{
	static const char *const hops[] = {"connection",
					   "keep-alive",
					   "proxy-connection",
					   "proxy-authorization",
					   "proxy-authenticate",
					   "te",
					   "trailer",
					   "transfer-encoding",
					   "upgrade"};

	for (size_t i = 0; i < ARRAY_LEN(hops); i++)
		if (http_is(name, hops[i]))
			return true;
	return false;
}

bool http_is_hop(const struct http_head *h, struct http_text name)
{
	if (http_hop(name))
		return true;
	for (uint32_t i = 0; i < h->fields_n; i++)
		if (http_is(h->field[i].name, "connection") &&
		    http_list_has(h->field[i].value, name))
			return true;
	return false;
}

/* ---- the head as a whole ---- */

/* Bytes no head may hold: NUL and other controls, LF without CR, CR without LF. */
static bool bytes_good(const uint8_t *p, size_t n, const char **why)
{
	for (size_t i = 0; i < n; i++) {
		uint8_t c = p[i];

		if (c >= 0x20 && c != 0x7f)
			continue;
		if (c == '\t' || (c == '\n' && i > 0 && p[i - 1] == '\r') ||
		    (c == '\r' && (i + 1 == n || p[i + 1] == '\n')))
			continue;
		return bad(why, c == '\n' || c == '\r' ? "a bare line end" : "a control byte");
	}
	return true;
}

ssize_t http_parse(const uint8_t *p, size_t n, bool request, struct http_head *ret,
		   const char **why)
{
	size_t seen = MIN(n, (size_t)HTTP_HEAD_MAX), at = 0;
	const uint8_t *end = memmem(p, seen, "\r\n\r\n", 4);
	const char *text = (const char *)p;

	*ret = (struct http_head){.body = HTTP_NONE};
	*why = "too large";
	if (!bytes_good(p, end != NULL ? (size_t)(end + 4 - p) : seen, why))
		return -EBADMSG;
	if (n > 0 && (p[0] == '\r' || p[0] == ' '))
		return *why = "the first line", -EBADMSG;
	if (end == NULL)
		return n >= HTTP_HEAD_MAX ? -E2BIG : 0;
	for (bool first = true; text + at < (const char *)end + 2; first = false) {
		const char *nl = memmem(text + at, (size_t)(end + 2 - p) - at, "\r\n", 2);
		size_t len = (size_t)(nl - text) - at;

		if (!first && ret->fields_n == HTTP_FIELDS_MAX)
			return -E2BIG;
		if (!(first ? (request ? parse_request : parse_status)(text + at, len, ret, why)
			    : parse_field(text + at, len, ret, why)))
			return -EBADMSG;
		at += len + 2;
	}
	return read_fields(ret, request, why) ? (ssize_t)(at + 2) : -EBADMSG;
}

enum http_body http_response_body(const struct http_head *h, bool to_head)
{
	if (to_head || h->status < 200 || h->status == 204 || h->status == 304)
		return HTTP_NONE;
	return h->body == HTTP_NONE ? HTTP_TO_END : h->body;
}

int http_put_field(struct buf *b, struct http_text name, struct http_text value)
{
	uint8_t *p = buf_reserve(b, name.n + value.n + 4);

	if (p == NULL)
		return -ENOBUFS;
	memcpy(p, name.p, name.n);
	memcpy(p + name.n, ": ", 2);
	if (value.n > 0)
		memcpy(p + name.n + 2, value.p, value.n);
	memcpy(p + name.n + 2 + value.n, "\r\n", 2);
	buf_commit(b, name.n + value.n + 4);
	return 0;
}
