#include "wire/frame.h"

#include "base/num.h"

#include <errno.h>

/* Fed by the other side of the agent's stream, which is hostile in both directions. Nothing here
 * keeps state: the caller owns the bytes and the stream table. */

static const struct {
	uint8_t dir;
	uint32_t min, max;
} frames[] = {
#define FRAME(id, nr, d, lo, hi, text) [nr] = {.dir = (d), .min = (lo), .max = (hi)},
#include "wire/frames.def"
#undef FRAME
};

int frame_decode(const void *p, size_t n, enum frame_dir to, struct frame *ret)
{
	const uint8_t *b = p;
	uint32_t len, stream;
	uint16_t flags;
	uint8_t type, chan;

	if (n < FRAME_HDR)
		return 0;
	len = load_le32(b);
	stream = load_le32(b + 4);
	type = b[8];
	chan = b[9];
	flags = load_le16(b + 10);

	if (type >= ARRAY_LEN(frames) || frames[type].dir == 0 || (frames[type].dir & to) == 0)
		return -EPROTO;
	if (len < frames[type].min || len > frames[type].max)
		return -EPROTO;
	if (chan >= CHAN_COUNT || (flags & ~FRAME_F_ALL) != 0 || (flags != 0 && type != FRAME_OPEN))
		return -EPROTO;
	if (stream > FRAME_STREAM_MAX)
		return -EPROTO;
	if ((stream == 0) != (type == FRAME_HELLO || type == FRAME_PING || type == FRAME_PONG))
		return -EPROTO;
	if (n - FRAME_HDR < len)
		return 0;
	*ret = (struct frame){.stream = stream,
			      .type = type,
			      .chan = chan,
			      .flags = flags,
			      .len = len,
			      .payload = b + FRAME_HDR};
	return (int)(FRAME_HDR + len);
}

void frame_header(uint8_t *dst, enum frame_type type, uint32_t stream, uint8_t chan, uint16_t flags,
		  uint32_t len)
{
	store_le32(dst, len);
	store_le32(dst + 4, stream);
	dst[8] = (uint8_t)type;
	dst[9] = chan;
	store_le16(dst + 10, flags);
}

int frame_put(struct buf *b, enum frame_type type, uint32_t stream, uint8_t chan, uint16_t flags,
	      const void *payload, size_t len)
{
	uint8_t *dst;

	if (len > FRAME_MAX)
		return -EINVAL;
	dst = buf_reserve(b, FRAME_HDR + len);
	if (dst == NULL)
		return buf_room(b) < FRAME_HDR + len ? -ENOBUFS : -ENOMEM;
	frame_header(dst, type, stream, chan, flags, (uint32_t)len);
	if (len > 0)
		memcpy(dst + FRAME_HDR, payload, len);
	buf_commit(b, FRAME_HDR + len);
	return 0;
}
