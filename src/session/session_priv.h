#pragma once
/* What session.c (the connection), tx.c (its outgoing queue), stream.c (one stream's life) and stream_send.c
 * share. Nobody else includes it. */
#include "session/session.h"
#include "wire/frame.h"

#include <errno.h>

enum {
	SESSION_STREAMS_MAX = 1024, /* open at once; a power of two */
	SESSION_FDS_MAX = 8,        /* descriptors of one request */
	/* Outgoing bytes. Requests may queue up to OPEN_HIGH, stream data up to DATA_HIGH; the
	 * rest of TX_MAX is for control frames, and a session that fills it is over. */
	TX_MAX = 16 * 1024 * 1024,
	TX_OPEN_HIGH = 12 * 1024 * 1024,
	TX_DATA_HIGH = 256 * 1024,
	RX_MAX = 256 * 1024,
	CREDIT_STEP = FRAME_WINDOW / 4, /* bytes taken before credit is given back */
	PONGS_MAX = 256,                /* unsent answers to PING */
};

/* Descriptors that leave with the byte at a position of the outgoing stream. */
struct fd_mark {
	struct fd_mark *next;
	uint64_t at; /* counted from the session's first byte */
	uint32_t n;
	bool owned; /* duplicates, to be closed; else the caller's, sent before session_open ends */
	int fds[SESSION_FDS_MAX];
};

/* Sandbox -> host half of a stream: CHAN_OUT and CHAN_ERR. */
struct rx_chan {
	struct buf kept;   /* bytes the consumer did not take yet */
	uint32_t credit;   /* what the agent may still send */
	uint32_t due;      /* taken bytes not given back as credit yet */
	bool eof;          /* EOF came */
	bool eof_told;     /* ... and the consumer knows */
	bool stalled;      /* the consumer took less than offered: wait for stream_resume */
	bool resumed;      /* stream_resume came during the callback */
	bool broken;       /* the consumer failed: drop what still comes */
};

struct stream {
	struct session *s;
	struct stream *prev, *next;
	uint32_t id;
	const struct stream_ops *ops;
	void *arg;
	struct rx_chan rx[CHAN_COUNT]; /* [CHAN_IN] is not used */
	uint32_t tx_credit;            /* CHAN_IN bytes the agent still takes */
	bool tx_eof;
	bool tx_broken;
	bool tx_waits; /* stream_write took less than offered: `writable` is owed */
	bool started;
	bool ended; /* result is filled in */
	bool resume_due; /* stream_resume came while another callback ran */
	struct stream_result result;
};

struct session {
	int fd;
	bool fd_pass;
	bool hello;      /* the peer's HELLO came */
	bool tx_blocked; /* the socket was full */
	bool tx_dead;    /* the peer no longer reads; what it sent before is still taken in */
	bool work;       /* streams wait for a callback */
	bool doomed;     /* session_free was called from a callback */
	int dead;        /* 0 or the -errno that ended the session */
	int fail;        /* -errno met outside session_io, reported by the next one */
	const char *why; /* what the agent did wrong; static text */
	uint32_t depth;  /* callbacks may be running above 0 */
	uint32_t pongs;
	uint32_t next_id;
	uint32_t count;
	struct buf in;
	struct buf out;
	uint64_t sent; /* bytes of the outgoing stream that left */
	struct fd_mark *marks, **marks_tail;
	struct stream *first, *last;
	struct stream *slots[SESSION_STREAMS_MAX]; /* by id modulo the size */
};

/* tx.c */
/* Queue a control frame of the session itself; a queue that is full ends the session. */
void tx_frame(struct session *s, enum frame_type type, uint32_t stream, uint8_t chan,
	      const void *payload, size_t len);
void tx_u32(struct session *s, enum frame_type type, uint32_t stream, uint8_t chan, uint32_t v);
/* Queue a request with its descriptors and try to send it at once. 0, -errno with nothing queued. */
int must_check tx_open(struct session *s, uint32_t stream, const struct buf *req, const int *fds,
		       uint32_t nfds);
void tx_flush(struct session *s);
void tx_done(struct session *s);

/* stream.c */
/* Frames of a stream. 0; -EPROTO with s->why set. */
int stream_frame(struct session *s, const struct frame *f);
/* Run the callbacks that are owed. Returns when none is left or the session was freed. */
void streams_pump(struct session *s);
/* End every stream that has no result, and deliver it. */
void streams_end_all(struct session *s, int err, const char *text);
void streams_free_all(struct session *s);
/* result.c: the request's end as the RESULT frame tells it. 0, -EPROTO. */
int must_check result_decode(const void *p, size_t n, struct stream_result *ret);

/* session.c */
void session_enter(struct session *s);
void session_leave(struct session *s); /* frees the session if a callback asked for it */
static inline int session_broken(struct session *s, const char *why)
{
	s->why = why;
	return -EPROTO;
}
