#include "wire/request.h"

#include "base/num.h"

#include <errno.h>

/* Fed by the other side of the agent's stream, hostile in both directions. msg_next is the only
 * reader; every limit comes from request_fields.def. */

enum field_type { NONE, U64, STR, BYTES };

static const struct {
	uint8_t type;
	bool repeat;
	uint64_t max;
} fields[] = {
#define FIELD(id, nr, t, m, r, text) [nr] = {.type = (t), .repeat = (r) != 0, .max = (uint64_t)(m)},
#include "wire/request_fields.def"
#undef FIELD
};
_Static_assert(ARRAY_LEN(fields) <= 64, "msg_reader.seen is one 64-bit word");

enum { FIELD_HDR = 8 };

void msg_bytes(struct msg_writer *w, enum msg_field f, const void *p, size_t n)
{
	uint8_t *dst;

	if (w->err != 0)
		return;
	if ((size_t)f >= ARRAY_LEN(fields) || fields[f].type == NONE || n > UINT32_MAX ||
	    (fields[f].type != U64 && n > fields[f].max)) {
		w->err = -E2BIG;
		return;
	}
	dst = buf_reserve(w->b, FIELD_HDR + n);
	if (dst == NULL) {
		w->err = -ENOBUFS;
		return;
	}
	store_le16(dst, (uint16_t)f);
	store_le16(dst + 2, 0);
	store_le32(dst + 4, (uint32_t)n);
	if (n > 0)
		memcpy(dst + FIELD_HDR, p, n);
	buf_commit(w->b, FIELD_HDR + n);
}

void msg_u64(struct msg_writer *w, enum msg_field f, uint64_t v)
{
	uint8_t le[8];

	store_le64(le, v);
	msg_bytes(w, f, le, sizeof(le));
}

void msg_str(struct msg_writer *w, enum msg_field f, const char *s)
{
	msg_bytes(w, f, s, strlen(s));
}

int msg_next(struct msg_reader *r, struct msg_item *ret)
{
	uint16_t nr;
	uint32_t len;

	if (r->left == 0)
		return 0;
	if (r->left < FIELD_HDR)
		return -EPROTO;
	nr = load_le16(r->p);
	len = load_le32(r->p + 4);
	if (nr >= ARRAY_LEN(fields) || fields[nr].type == NONE || load_le16(r->p + 2) != 0)
		return -EPROTO;
	if (len > r->left - FIELD_HDR)
		return -EPROTO;
	if (!fields[nr].repeat) {
		if ((r->seen >> nr) & 1)
			return -EPROTO;
		r->seen |= UINT64_C(1) << nr;
	}
	*ret = (struct msg_item){.field = (enum msg_field)nr, .data = r->p + FIELD_HDR, .len = len};
	if (fields[nr].type == U64) {
		if (len != sizeof(uint64_t))
			return -EPROTO;
		ret->u64 = load_le64(ret->data);
		if (ret->u64 > fields[nr].max)
			return -EPROTO;
	} else if (len > fields[nr].max) {
		return -EPROTO;
	} else if (fields[nr].type == STR && memchr(ret->data, '\0', len) != NULL) {
		return -EPROTO;
	}
	r->p += FIELD_HDR + len;
	r->left -= FIELD_HDR + len;
	return 1;
}

int msg_copy(const struct msg_item *it, char *dst, size_t size)
{
	if (it->len >= size)
		return -ENAMETOOLONG;
	memcpy(dst, it->data, it->len);
	dst[it->len] = '\0';
	return 0;
}

int record_put(struct buf *out, const struct buf *body)
{
	uint8_t *dst;

	if (body->len == 0 || body->len > MSG_RECORD_MAX)
		return -EMSGSIZE;
	dst = buf_reserve(out, 4 + body->len);
	if (dst == NULL)
		return -ENOBUFS;
	store_le32(dst, (uint32_t)body->len);
	memcpy(dst + 4, buf_head(body), body->len);
	buf_commit(out, 4 + body->len);
	return 0;
}

int record_next(const void *p, size_t n, struct msg_reader *ret)
{
	uint32_t len;

	if (n < 4)
		return 0;
	len = load_le32(p);
	if (len == 0 || len > MSG_RECORD_MAX)
		return -EPROTO;
	if (n - 4 < len)
		return 0;
	*ret = msg_reader((const uint8_t *)p + 4, len);
	return (int)(4 + len);
}

void hello_encode(uint8_t dst[HELLO_LEN], uint32_t features)
{
	store_le32(dst, HELLO_MAGIC);
	store_le16(dst + 4, HELLO_VERSION); /* oldest spoken */
	store_le16(dst + 6, HELLO_VERSION); /* newest spoken */
	store_le32(dst + 8, features);
	store_le32(dst + 12, 0);
}

int hello_decode(const void *p, size_t n, uint32_t *ret_features)
{
	const uint8_t *b = p;

	if (n < HELLO_LEN || load_le32(b) != HELLO_MAGIC)
		return -EPROTO;
	if (load_le16(b + 4) > HELLO_VERSION || load_le16(b + 6) < HELLO_VERSION)
		return -EPROTONOSUPPORT;
	*ret_features = load_le32(b + 8);
	return 0;
}
