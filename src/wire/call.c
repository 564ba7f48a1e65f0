#include "wire/call.h"

#include "base/num.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

/* Fed by brigd, which passes on what clients write, and by keepers, which speak with sandboxes.
 * Keeps no state. */

int call_next(const void *p, size_t n, struct call_piece *ret)
{
	const uint8_t *b = p;
	uint32_t len;

	if (n < CALL_HEADER)
		return 0;
	len = load_le32(b + 4);
	if (b[0] < CALL_REQUEST || b[0] > CALL_END || b[1] != 0 || load_le16(b + 2) != 0 ||
	    len > CALL_PIECE_MAX || (b[0] == CALL_END && len != 0))
		return -EPROTO;
	if (n - CALL_HEADER < len)
		return 0;
	*ret = (struct call_piece){.kind = (enum call_kind)b[0], .p = b + CALL_HEADER, .n = len};
	return (int)(CALL_HEADER + len);
}

/* ---- heads ---- */

static bool visible(const char *s)
{
	for (; *s != '\0'; s++)
		if ((unsigned char)*s <= ' ' || *s == 127)
			return false;
	return true;
}

static bool method_ok(const char *s)
{
	size_t n = strspn(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZ");

	return n > 0 && n <= 16 && s[n] == '\0';
}

static bool target_ok(const char *s) { return s[0] == '/' && visible(s); }

static bool name_ok(const char *s)
{
	if (*s == '\0')
		return false;
	for (; *s != '\0'; s++)
		if (!islower((unsigned char)*s) && !isdigit((unsigned char)*s) &&
		    strchr("-_.!#$%&'*+^`|~", *s) == NULL)
			return false;
	return true;
}

static bool value_ok(const char *s)
{
	for (; *s != '\0'; s++)
		if (((unsigned char)*s < ' ' && *s != '\t') || *s == 127)
			return false;
	return true;
}

/* The next string of a head; NULL when none is left. The piece ends with a NUL, which was looked
 * at. */
static const char *next(const char **p, const char *end)
{
	const char *s = *p;

	if (s == end)
		return NULL;
	*p = s + strlen(s) + 1;
	return s;
}

static int status_of(const char *s)
{
	for (size_t i = 0; i < 3; i++)
		if (!isdigit((unsigned char)s[i]))
			return -EPROTO;
	return s[3] != '\0' || s[0] < '1' || s[0] > '5'
		   ? -EPROTO
		   : (s[0] - '0') * 100 + (s[1] - '0') * 10 + s[2] - '0';
}

int call_head(const struct call_piece *c, struct call_head *ret)
{
	const char *p = (const char *)c->p, *end = p + c->n, *s;
	int status;

	*ret = (struct call_head){.fields_n = 0};
	if (c->n == 0 || end[-1] != '\0')
		return -EPROTO;
	s = next(&p, end);
	if (c->kind == CALL_REQUEST) {
		ret->method = s;
		ret->target = next(&p, end);
		if (!method_ok(s) || ret->target == NULL || !target_ok(ret->target))
			return -EPROTO;
	} else if (c->kind == CALL_RESPONSE) {
		status = status_of(s);
		if (status < 0)
			return status;
		ret->status = (unsigned)status;
	} else {
		return -EPROTO;
	}
	while ((s = next(&p, end)) != NULL) {
		const char *value = next(&p, end);

		if (value == NULL || !name_ok(s) || !value_ok(value) ||
		    ret->fields_n == CALL_FIELDS_MAX)
			return -EPROTO;
		ret->field[ret->fields_n++] = (struct call_field){.name = s, .value = value};
	}
	return 0;
}

const char *call_find(const struct call_head *h, const char *name)
{
	for (uint32_t i = 0; i < h->fields_n; i++)
		if (strcmp(h->field[i].name, name) == 0)
			return h->field[i].value;
	return NULL;
}

/* ---- writing ---- */

/* Room for a piece of n bytes, its header written already. */
static int reserve(struct buf *b, enum call_kind kind, size_t n, uint8_t **ret)
{
	uint8_t *dst;

	if (n > CALL_PIECE_MAX)
		return -EMSGSIZE;
	dst = buf_reserve(b, CALL_HEADER + n);
	if (dst == NULL)
		return buf_room(b) < CALL_HEADER + n ? -ENOBUFS : -ENOMEM;
	memset(dst, 0, CALL_HEADER);
	dst[0] = (uint8_t)kind;
	store_le32(dst + 4, (uint32_t)n);
	*ret = dst;
	return 0;
}

int call_put(struct buf *b, enum call_kind kind, const void *p, size_t n)
{
	uint8_t *dst = NULL;
	int r;

	r = reserve(b, kind, n, &dst);
	if (r < 0)
		return r;
	if (n > 0)
		memcpy(dst + CALL_HEADER, p, n);
	buf_commit(b, CALL_HEADER + n);
	return 0;
}

static void add(uint8_t *dst, size_t *at, const char *s)
{
	size_t n = strlen(s) + 1;

	memcpy(dst + *at, s, n);
	*at += n;
}

static int put_head(struct buf *b, enum call_kind kind, const char *first, const char *second,
		    const struct call_field *f, uint32_t fields)
{
	size_t n = strlen(first) + 1 + (second != NULL ? strlen(second) + 1 : 0), at = CALL_HEADER;
	uint8_t *dst = NULL;
	int r;

	if (fields > CALL_FIELDS_MAX)
		return -EMSGSIZE;
	for (uint32_t i = 0; i < fields; i++) {
		if (!name_ok(f[i].name) || !value_ok(f[i].value))
			return -EINVAL;
		n += strlen(f[i].name) + strlen(f[i].value) + 2;
	}
	r = reserve(b, kind, n, &dst);
	if (r < 0)
		return r;
	add(dst, &at, first);
	if (second != NULL)
		add(dst, &at, second);
	for (uint32_t i = 0; i < fields; i++) {
		add(dst, &at, f[i].name);
		add(dst, &at, f[i].value);
	}
	buf_commit(b, CALL_HEADER + n);
	return 0;
}

int call_put_request(struct buf *b, const char *method, const char *target,
		     const struct call_field *f, uint32_t n)
{
	return !method_ok(method) || !target_ok(target)
		   ? -EINVAL
		   : put_head(b, CALL_REQUEST, method, target, f, n);
}

int call_put_response(struct buf *b, unsigned status, const struct call_field *f, uint32_t n)
{
	char word[4];

	if (status < 100 || status > 599)
		return -EINVAL;
	word[0] = (char)('0' + status / 100);
	word[1] = (char)('0' + status / 10 % 10);
	word[2] = (char)('0' + status % 10);
	word[3] = '\0';
	return put_head(b, CALL_RESPONSE, word, NULL, f, n);
}
