#pragma once
/* The byte stream to the host: frames in, frames out, descriptors that came along. */
#include "wire/frame.h"

#include <stdbool.h>
#include <stdint.h>

enum {
	PEER_FDS_MAX = 8,              /* descriptors received and not yet taken by a request */
	PEER_OUT_SOFT = 192 * 1024,    /* no more channel bytes are read while more than this waits, bytes */
	PEER_OUT_PAUSE = 512 * 1024,   /* no more frames are taken in while more than this waits, bytes */
	PEER_OUT_MAX = 2 * 1024 * 1024, /* never reached by an agent that keeps to the other two, bytes */
};

struct peer {
	int fd;
	bool broken; /* a frame could not be queued: the connection has to end */
	bool greeted; /* the host's HELLO was seen */
	bool held;    /* `in` may have whole frames: the output queue was too full to answer them */
	size_t chunk; /* bytes to ask for in the next read */
	struct buf in, out;
	int fds[PEER_FDS_MAX]; /* owned until taken */
	uint32_t nfds;
	struct buf open;      /* a request that came in fragments so far */
	uint32_t open_stream; /* its stream, 0 = none */
	uint16_t open_flags;  /* of its first fragment */
};

void peer_init(struct peer *p, int fd);
void peer_done(struct peer *p);
/* Read once. Bytes read, 0: nothing there, -EPIPE: end of file or a dead connection, -EPROTO: more
 * descriptors than allowed, -ENOMEM. */
int peer_read(struct peer *p);
/* Write what the connection takes. 0, -EPIPE. */
int peer_flush(struct peer *p);
/* Queue a frame. A queue that overflows sets `broken`. */
void peer_send(struct peer *p, enum frame_type type, uint32_t stream, uint8_t chan, const void *payload,
	       size_t len);
void peer_send_u32(struct peer *p, enum frame_type type, uint32_t stream, uint8_t chan, uint32_t v);
/* Take the n oldest received descriptors; the caller owns them. -EPROTO when fewer are there. */
int must_check peer_take_fds(struct peer *p, int *dst, uint32_t n);
/* Give memory back that only a busy connection needs. */
void peer_idle(struct peer *p);
