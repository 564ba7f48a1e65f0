#include "wire/call.h"

#include "harness/test.h"

#include <errno.h>
#include <string.h>

static int head_of(struct buf *b, struct call_head *h)
{
	struct call_piece c;
	int used = call_next(buf_head(b), b->len, &c);

	return used <= 0 ? -EAGAIN : call_head(&c, h);
}

TEST(a_request_comes_back)
{
	static const struct call_field f[] = {{"content-type", "application/json"}, {"range", ""}};
	struct buf b = {.max = 4096};
	struct call_head h;

	CHECK(call_put_request(&b, "POST", "/envd/files?path=a%20b", f, 2) == 0);
	CHECK(head_of(&b, &h) == 0);
	CHECK(strcmp(h.method, "POST") == 0 && strcmp(h.target, "/envd/files?path=a%20b") == 0);
	CHECK(h.fields_n == 2 && strcmp(call_find(&h, "content-type"), "application/json") == 0);
	CHECK(strcmp(call_find(&h, "range"), "") == 0 && call_find(&h, "host") == NULL);
	buf_done(&b);
}

TEST(a_response_and_its_body_come_back)
{
	static const struct call_field f[] = {{"content-length", "5"}};
	struct buf b = {.max = 4096};
	struct call_head h;
	struct call_piece c;
	int used;

	CHECK(call_put_response(&b, 207, f, 1) == 0 && call_put(&b, CALL_BODY, "hello", 5) == 0 &&
	      call_put(&b, CALL_END, NULL, 0) == 0);
	CHECK(head_of(&b, &h) == 0 && h.status == 207 && h.method == NULL);
	used = call_next(buf_head(&b), b.len, &c);
	buf_consume(&b, (size_t)used);
	used = call_next(buf_head(&b), b.len, &c);
	CHECK(used == CALL_HEADER + 5 && c.kind == CALL_BODY && memcmp(c.p, "hello", 5) == 0);
	CHECK(call_next(buf_head(&b), CALL_HEADER + 4, &c) == 0);
	buf_consume(&b, (size_t)used);
	CHECK(call_next(buf_head(&b), b.len, &c) == CALL_HEADER && c.kind == CALL_END);
	buf_done(&b);
}

TEST(what_no_side_would_write_is_refused)
{
	static const char *const bad[] = {
	    "GET\0/\0name", "GET\0/a b\0",	 "get\0/\0",	      "GET\0a\0",
	    "GET\0",	    "GET\0/\0Name\0v\0", "GET\0/\0n\0a\nb\0", "GET\0/\0\0v\0",
	};
	static const size_t len[] = {10, 9, 6, 6, 4, 13, 12, 9};
	struct call_head h;

	for (size_t i = 0; i < sizeof(len) / sizeof(*len); i++) {
		struct call_piece c = {
		    .kind = CALL_REQUEST, .p = (const uint8_t *)bad[i], .n = (uint32_t)len[i]};

		CHECK(call_head(&c, &h) == -EPROTO);
	}
	for (size_t i = 0; i < 4; i++) {
		static const char *const status[] = {"20", "2000", "600", "0x2"};
		struct call_piece c = {.kind = CALL_RESPONSE,
				       .p = (const uint8_t *)status[i],
				       .n = (uint32_t)strlen(status[i]) + 1};

		CHECK(call_head(&c, &h) == -EPROTO);
	}
}

TEST(a_piece_out_of_the_rules_is_refused)
{
	uint8_t p[CALL_HEADER] = {CALL_BODY};
	struct call_piece c;

	CHECK(call_next(p, sizeof(p), &c) == CALL_HEADER && c.n == 0);
	p[0] = 5;
	CHECK(call_next(p, sizeof(p), &c) == -EPROTO);
	p[0] = CALL_END;
	p[4] = 1;
	CHECK(call_next(p, sizeof(p), &c) == -EPROTO);
	p[0] = CALL_BODY;
	p[6] = 2; /* 128 KiB */
	CHECK(call_next(p, sizeof(p), &c) == -EPROTO);
	p[6] = 0;
	p[2] = 1;
	CHECK(call_next(p, sizeof(p), &c) == -EPROTO);
}

TEST(nothing_too_large_or_malformed_is_written)
{
	static const struct call_field upper = {"Host", "x"}, newline = {"host", "x\r\ny"};
	struct buf b = {.max = 2 * CALL_PIECE_MAX};
	static char big[CALL_PIECE_MAX + 1];

	CHECK(call_put(&b, CALL_BODY, big, sizeof(big)) == -EMSGSIZE);
	CHECK(call_put_request(&b, "GET", "/", &upper, 1) == -EINVAL);
	CHECK(call_put_request(&b, "GET", "/", &newline, 1) == -EINVAL);
	CHECK(call_put_request(&b, "GET", "*", NULL, 0) == -EINVAL);
	CHECK(call_put_response(&b, 99, NULL, 0) == -EINVAL);
	memset(big, 'a', sizeof(big) - 1);
	big[0] = '/';
	CHECK(call_put_request(&b, "GET", big, NULL, 0) == -EMSGSIZE);
	CHECK(b.len == 0);
	buf_done(&b);
}

TEST_MAIN()
