#include "wire/request.h"

#include "base/num.h"
#include "harness/test.h"

#include <errno.h>
#include <string.h>

/* One raw field, well-formed or not. */
static void put_raw(struct buf *b, uint16_t nr, uint16_t zero, uint32_t len, const void *p, size_t n)
{
	uint8_t h[8];

	store_le16(h, nr);
	store_le16(h + 2, zero);
	store_le32(h + 4, len);
	if (buf_put(b, h, 8) < 0 || buf_put(b, p, n) < 0)
		abort();
}
static int walk(const struct buf *b)
{
	struct msg_reader r = msg_reader(buf_head(b), b->len);
	struct msg_item it;
	int n = 0, more;

	while ((more = msg_next(&r, &it)) > 0)
		n++;
	return more < 0 ? more : n;
}
static int raw(uint16_t nr, uint16_t zero, uint32_t len, const void *p, size_t n)
{
	struct buf b = {.max = 1u << 20};
	int r;

	put_raw(&b, nr, zero, len, p, n);
	r = walk(&b);
	buf_done(&b);
	return r;
}

TEST(a_message_round_trips)
{
	struct buf b = {.max = 4096};
	struct msg_writer w = {.b = &b};
	struct msg_reader r;
	struct msg_item it;
	char s[8];

	msg_u64(&w, F_KIND, REQ_EXEC);
	msg_str(&w, F_ARG, "true");
	msg_str(&w, F_ARG, "");
	msg_bytes(&w, F_ENTROPY, "\0\1", 2);
	CHECK(w.err == 0);
	r = msg_reader(buf_head(&b), b.len);
	CHECK(msg_next(&r, &it) == 1 && it.field == F_KIND && it.u64 == REQ_EXEC);
	CHECK(msg_next(&r, &it) == 1 && it.field == F_ARG && msg_copy(&it, s, sizeof(s)) == 0);
	CHECK(strcmp(s, "true") == 0 && msg_copy(&it, s, 4) == -ENAMETOOLONG);
	CHECK(msg_next(&r, &it) == 1 && it.len == 0);
	CHECK(msg_next(&r, &it) == 1 && it.field == F_ENTROPY && it.len == 2);
	CHECK(msg_next(&r, &it) == 0);
	buf_done(&b);
}

TEST(malformed_fields_are_refused)
{
	static const uint8_t eight[8] = {1};
	static char big[5000];

	CHECK(raw(F_KIND, 0, 8, eight, 8) == 1);
	CHECK(raw(F_KIND, 1, 8, eight, 8) == -EPROTO); /* reserved bits */
	CHECK(raw(0, 0, 8, eight, 8) == -EPROTO);
	CHECK(raw(31, 0, 8, eight, 8) == -EPROTO); /* a gap in the table */
	CHECK(raw(63, 0, 8, eight, 8) == -EPROTO);
	CHECK(raw(65535, 0, 8, eight, 8) == -EPROTO);
	CHECK(raw(F_KIND, 0, 4, eight, 4) == -EPROTO);
	CHECK(raw(F_KIND, 0, 9, eight, 8) == -EPROTO); /* longer than the message */
	CHECK(raw(F_KIND, 0, UINT32_MAX, eight, 8) == -EPROTO);
	CHECK(raw(F_KIND, 0, 8, "\x41\0\0\0\0\0\0", 8) == -EPROTO); /* above its maximum */
	CHECK(raw(F_PATH, 0, 3, "a\0b", 3) == -EPROTO);
	memset(big, 'a', sizeof(big));
	CHECK(raw(F_PATH, 0, 4095, big, 4095) == 1 && raw(F_PATH, 0, 4096, big, 4096) == -EPROTO);
	CHECK(raw(F_ENTROPY, 0, 1025, big, 1025) == -EPROTO);
}

TEST(single_fields_come_once_and_nothing_trails)
{
	static const uint8_t eight[8] = {1};
	struct buf b = {.max = 4096};

	put_raw(&b, F_ARG, 0, 1, "a", 1);
	put_raw(&b, F_ARG, 0, 1, "a", 1);
	CHECK(walk(&b) == 2);
	put_raw(&b, F_CODE, 0, 8, eight, 8);
	CHECK(walk(&b) == 3);
	put_raw(&b, F_CODE, 0, 8, eight, 8);
	CHECK(walk(&b) == -EPROTO);
	buf_done(&b);
	put_raw(&b, F_ARG, 0, 1, "a", 1);
	CHECK(buf_put(&b, "1234567", 7) == 0 && walk(&b) == -EPROTO);
	buf_done(&b);
}

TEST(the_writer_remembers_its_first_error)
{
	static char big[5000];
	struct buf b = {.max = 64};
	struct msg_writer w = {.b = &b};

	memset(big, 'a', sizeof(big) - 1);
	msg_str(&w, F_PATH, big);
	CHECK(w.err == -E2BIG);
	msg_u64(&w, F_KIND, 1);
	CHECK(b.len == 0);
	w.err = 0;
	msg_str(&w, F_PATH, "0123456789012345678901234567890123456789012345678901234567890123");
	CHECK(w.err == -ENOBUFS);
	buf_done(&b);
}

TEST(records_are_framed_and_bounded)
{
	struct buf body = {.max = MSG_RECORD_MAX + 1}, out = {.max = 2 * MSG_RECORD_MAX};
	struct msg_writer w = {.b = &body};
	struct msg_reader r;
	struct msg_item it;
	uint8_t h[4];

	CHECK(record_put(&out, &body) == -EMSGSIZE);
	msg_str(&w, F_NAME, "x");
	CHECK(record_put(&out, &body) == 0);
	for (size_t n = 0; n < out.len; n++)
		CHECK(record_next(buf_head(&out), n, &r) == 0);
	CHECK(record_next(buf_head(&out), out.len, &r) == (int)out.len);
	CHECK(msg_next(&r, &it) == 1 && it.field == F_NAME && msg_next(&r, &it) == 0);
	store_le32(h, 0);
	CHECK(record_next(h, 4, &r) == -EPROTO);
	store_le32(h, MSG_RECORD_MAX + 1);
	CHECK(record_next(h, 4, &r) == -EPROTO);
	CHECK(buf_reserve(&body, MSG_RECORD_MAX + 1 - body.len) != NULL);
	memset(body.data, 0, MSG_RECORD_MAX + 1);
	buf_commit(&body, MSG_RECORD_MAX + 1 - body.len);
	CHECK(record_put(&out, &body) == -EMSGSIZE);
	buf_done(&body);
	buf_done(&out);
}

TEST(hello_names_a_version_both_speak)
{
	uint8_t h[HELLO_LEN];
	uint32_t features = 0;

	hello_encode(h, HELLO_FD_PASS);
	CHECK(hello_decode(h, sizeof(h), &features) == 0 && features == HELLO_FD_PASS);
	CHECK(hello_decode(h, sizeof(h) - 1, &features) == -EPROTO);
	store_le16(h + 6, 9); /* a newer one that still speaks ours */
	CHECK(hello_decode(h, sizeof(h), &features) == 0);
	store_le16(h + 4, 2); /* and one that does not */
	CHECK(hello_decode(h, sizeof(h), &features) == -EPROTONOSUPPORT);
	h[0] ^= 1;
	CHECK(hello_decode(h, sizeof(h), &features) == -EPROTO);
}
TEST_MAIN()
