#include "wire/frame.h"

#include "base/num.h"
#include "harness/test.h"

#include <errno.h>
#include <string.h>

static uint8_t wire[FRAME_HDR + FRAME_MAX + 1];

static int decode(uint32_t len, uint32_t stream, uint8_t type, uint8_t chan, uint16_t flags,
		  enum frame_dir to)
{
	struct frame f;

	frame_header(wire, (enum frame_type)type, stream, chan, flags, len);
	return frame_decode(wire, sizeof(wire), to, &f);
}

TEST(what_was_put_is_decoded)
{
	struct buf b = {.max = 1024};
	struct frame f;

	CHECK(frame_put(&b, FRAME_DATA, 9, CHAN_ERR, 0, "hello", 5) == 0);
	CHECK(frame_put(&b, FRAME_EOF, 9, CHAN_ERR, 0, NULL, 0) == 0);
	CHECK(frame_decode(buf_head(&b), b.len, FRAME_TO_HOST, &f) == FRAME_HDR + 5);
	CHECK(f.type == FRAME_DATA && f.stream == 9 && f.chan == CHAN_ERR && f.flags == 0);
	CHECK(f.len == 5 && memcmp(f.payload, "hello", 5) == 0);
	buf_consume(&b, FRAME_HDR + 5);
	CHECK(frame_decode(buf_head(&b), b.len, FRAME_TO_AGENT, &f) == FRAME_HDR && f.len == 0);
	buf_done(&b);
}

TEST(a_part_of_a_frame_waits)
{
	struct buf b = {.max = 1024};
	struct frame f;

	CHECK(frame_put(&b, FRAME_DATA, 1, CHAN_OUT, 0, "hello", 5) == 0);
	for (size_t n = 0; n < FRAME_HDR + 5; n++)
		CHECK(frame_decode(b.data, n, FRAME_TO_HOST, &f) == 0);
	buf_done(&b);
}

TEST(a_bad_header_is_refused_before_its_payload_comes)
{
	struct frame f;

	frame_header(wire, FRAME_DATA, 1, CHAN_OUT, 0, FRAME_MAX + 1);
	CHECK(frame_decode(wire, FRAME_HDR, FRAME_TO_HOST, &f) == -EPROTO);
	frame_header(wire, FRAME_DATA, 1, CHAN_OUT, 0, UINT32_MAX);
	CHECK(frame_decode(wire, FRAME_HDR, FRAME_TO_HOST, &f) == -EPROTO);
}

TEST(every_rule_of_the_header)
{
	CHECK(decode(FRAME_MAX, 1, FRAME_DATA, 0, 0, FRAME_BOTH) == FRAME_HDR + FRAME_MAX);
	CHECK(decode(0, 1, FRAME_DATA, 0, 0, FRAME_BOTH) == -EPROTO); /* below its least length */
	CHECK(decode(1, 1, FRAME_EOF, 0, 0, FRAME_BOTH) == -EPROTO);
	CHECK(decode(5, 1, FRAME_CREDIT, 0, 0, FRAME_BOTH) == -EPROTO);
	CHECK(decode(0, 1, 0, 0, 0, FRAME_BOTH) == -EPROTO); /* unknown types */
	CHECK(decode(0, 1, 14, 0, 0, FRAME_BOTH) == -EPROTO);
	CHECK(decode(0, 1, 255, 0, 0, FRAME_BOTH) == -EPROTO);
	CHECK(decode(1, 1, FRAME_DATA, CHAN_COUNT, 0, FRAME_BOTH) == -EPROTO);
	CHECK(decode(1, 1, FRAME_DATA, 0, FRAME_F_MORE, FRAME_BOTH) == -EPROTO);
	CHECK(decode(1, 1, FRAME_OPEN, 0, FRAME_F_ALL, FRAME_TO_AGENT) > 0);
	CHECK(decode(1, 1, FRAME_OPEN, 0, 4, FRAME_TO_AGENT) == -EPROTO);
	CHECK(decode(1, FRAME_STREAM_MAX, FRAME_DATA, 0, 0, FRAME_BOTH) > 0);
	CHECK(decode(1, FRAME_STREAM_MAX + 1u, FRAME_DATA, 0, 0, FRAME_BOTH) == -EPROTO);
	CHECK(decode(1, 0, FRAME_DATA, 0, 0, FRAME_BOTH) == -EPROTO); /* needs a stream */
	CHECK(decode(8, 1, FRAME_PING, 0, 0, FRAME_BOTH) == -EPROTO); /* has none */
}

TEST(each_side_gets_only_its_own_types)
{
	static const uint8_t to_agent[] = {FRAME_OPEN, FRAME_SIGNAL, FRAME_RESIZE, FRAME_RESET};
	static const uint8_t to_host[] = {FRAME_START, FRAME_RESULT};
	static const uint32_t len[] = {[FRAME_OPEN] = 1,  [FRAME_SIGNAL] = 4, [FRAME_RESIZE] = 4,
				       [FRAME_RESET] = 0, [FRAME_START] = 4,  [FRAME_RESULT] = 8};

	for (size_t i = 0; i < ARRAY_LEN(to_agent); i++) {
		CHECK(decode(len[to_agent[i]], 1, to_agent[i], 0, 0, FRAME_TO_AGENT) > 0);
		CHECK(decode(len[to_agent[i]], 1, to_agent[i], 0, 0, FRAME_TO_HOST) == -EPROTO);
	}
	for (size_t i = 0; i < ARRAY_LEN(to_host); i++) {
		CHECK(decode(len[to_host[i]], 1, to_host[i], 0, 0, FRAME_TO_HOST) > 0);
		CHECK(decode(len[to_host[i]], 1, to_host[i], 0, 0, FRAME_TO_AGENT) == -EPROTO);
	}
}

TEST(putting_keeps_the_limits)
{
	struct buf b = {.max = FRAME_HDR + 4};

	CHECK(frame_put(&b, FRAME_DATA, 1, 0, 0, wire, FRAME_MAX + 1) == -EINVAL);
	CHECK(frame_put(&b, FRAME_DATA, 1, 0, 0, wire, 5) == -ENOBUFS && b.len == 0);
	CHECK(frame_put(&b, FRAME_DATA, 1, 0, 0, wire, 4) == 0);
	buf_done(&b);
}
TEST_MAIN()
