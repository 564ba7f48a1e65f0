#pragma once
/*
 * Frames of the agent protocol (version 1). docs/protocol.md describes the whole exchange.
 *
 * One byte stream carries frames in both directions. A frame is a 12-byte little-endian header
 * and `len` bytes of payload:
 *
 *      0       4         8      9      10        12
 *      | len   | stream  | type | chan | flags   | payload ...
 *
 * Both sides treat the other as hostile: a header that breaks a rule below ends the connection.
 * frame_decode is pure and is the only reader of headers.
 */
#include "base/buf.h"

#include <stdint.h>

enum {
	FRAME_HDR = 12,                 /* bytes */
	FRAME_MAX = 64 * 1024,          /* largest payload, bytes */
	FRAME_STREAM_MAX = 1u << 30,    /* stream ids are 1 .. this; 0 is the connection itself */
	FRAME_WINDOW = 256 * 1024,      /* initial credit of each channel and direction, bytes */
	FRAME_CREDIT_MAX = 1024 * 1024, /* outstanding credit never exceeds this, bytes */
	FRAME_OPEN_MAX = 4 * 1024 * 1024, /* largest request, all OPEN fragments together, bytes */
};

enum frame_type {
#define FRAME(id, nr, dir, min, max, text) FRAME_##id = nr,
#include "wire/frames.def"
#undef FRAME
};

/* Channels of a stream. What they mean depends on the request that opened it. */
enum frame_chan {
	CHAN_IN = 0,  /* host -> sandbox: stdin, file contents, port bytes */
	CHAN_OUT = 1, /* sandbox -> host: stdout, file contents, records, port bytes */
	CHAN_ERR = 2, /* sandbox -> host: stderr */
	CHAN_COUNT
};

enum frame_flags {
	FRAME_F_MORE = 1u << 0, /* OPEN only: the request goes on in the next OPEN of this stream */
	FRAME_F_FDS = 1u << 1,  /* OPEN only: descriptors came with the request's first fragment */
	FRAME_F_ALL = FRAME_F_MORE | FRAME_F_FDS
};

enum frame_dir { FRAME_TO_AGENT = 1, FRAME_TO_HOST = 2, FRAME_BOTH = 3 };

struct frame {
	uint32_t stream;
	uint8_t type; /* enum frame_type, known */
	uint8_t chan; /* < CHAN_COUNT */
	uint16_t flags;
	uint32_t len;
	const uint8_t *payload; /* borrowed from the input, valid until it changes */
};

/*
 * Decode the first frame of p[0..n). `to` names the receiving side, so that a frame that only the
 * other direction may carry is refused.
 * Returns the bytes used (> 0), 0 when more input is needed, -EPROTO for a broken header.
 */
int frame_decode(const void *p, size_t n, enum frame_dir to, struct frame *ret);

/* Append one frame to b. 0, -ENOBUFS, -ENOMEM; -EINVAL when the payload is longer than FRAME_MAX. */
int must_check frame_put(struct buf *b, enum frame_type type, uint32_t stream, uint8_t chan, uint16_t flags,
	      const void *payload, size_t len);
/* Write just a header at dst (FRAME_HDR bytes), for payloads that are sent from elsewhere. */
void frame_header(uint8_t *dst, enum frame_type type, uint32_t stream, uint8_t chan, uint16_t flags,
		  uint32_t len);
