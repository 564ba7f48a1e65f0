#pragma once
/*
 * The host's side of the agent protocol: many streams over one connection.
 *
 * A session owns no thread and no descriptor: the caller polls and calls session_io. Everything that
 * arrives is hostile. Memory is bounded: input is decoded frame by frame; bytes of a channel are
 * handed to the stream's callbacks, which say how much they consumed; what they do not take is kept
 * (at most the channel's credit) and no new credit is granted, so a stalled consumer stops only its
 * own channel.
 */
#include "base/buf.h"
#include "base/err.h"
#include "wire/request.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct session;
struct stream;

/* How a stream ended, from RESULT. */
struct stream_result {
	enum result_how how;
	uint32_t code;
	int err; /* positive errno for HOW_ERROR */
	char text[256];
	uint64_t utime_us, stime_us, maxrss_kib, wall_us;
};

struct stream_ops {
	/* Bytes of CHAN_OUT or CHAN_ERR. Return how many were taken (0..n); the rest is offered
	 * again after stream_resume. A negative errno makes the session tell the agent BROKEN. */
	ssize_t (*data)(void *arg, struct stream *s, uint8_t chan, const void *p, size_t n);
	/* The channel has ended: all its bytes were taken. Called only if the agent said so; result
	 * ends both channels as well. */
	void (*eof)(void *arg, struct stream *s, uint8_t chan);
	/* Credit arrived: stream_write may take bytes again. */
	void (*writable)(void *arg, struct stream *s);
	/* The sandbox's side closed its input (stdin closed by the program): stop writing. */
	void (*broken)(void *arg, struct stream *s, int err);
	void (*started)(void *arg, struct stream *s, uint32_t pid);
	/* The request ended, after every byte it sent was taken. *s is freed when this returns. */
	void (*result)(void *arg, struct stream *s, const struct stream_result *r);
}; /* every callback may be NULL: data is then thrown away */

/* fd is borrowed (non-blocking AF_UNIX stream or vsock). fd_pass: descriptors may be sent. */
int must_check session_new(int fd, bool fd_pass, struct session **ret);
void session_free(struct session *s); /* open streams get no callback */

/* poll(2) events the session waits for: POLLIN, POLLOUT. */
short session_events(const struct session *s);
/* Read and write what is possible. 0; -EPIPE: the agent is gone; -EPROTO: it broke the protocol;
 * -ECANCELED: a callback freed the session (callbacks may call everything here but session_io).
 * After an error the session is dead: every stream without a RESULT had its result called with
 * HOW_ERROR. One whose RESULT had come while its consumer was stalled stays, for stream_resume. */
int must_check session_io(struct session *s, short revents, struct err *e);

/*
 * Open a stream. req holds the message (wire/request.h) and is borrowed. fds[0..nfds) are
 * sent along and stay the caller's. ret_stream may be NULL.
 * Sent at once if the socket takes it.
 * -E2BIG: larger than FRAME_OPEN_MAX; -EMFILE: too many open streams; -ENOBUFS: the agent does not
 * read and the queue is full; -EPIPE: the session is dead.
 */
int must_check session_open(struct session *s, const struct buf *req, const int *fds, uint32_t nfds,
		 const struct stream_ops *ops, void *arg, struct stream **ret_stream, struct err *e);

/* Queue bytes for CHAN_IN. Returns how many were taken (0 = no credit or our queue is full; wait
 * for `writable`), -EPIPE after broken. */
ssize_t stream_write(struct stream *s, const void *p, size_t n);
void stream_eof(struct stream *s); /* no more CHAN_IN */
/* Offer kept bytes again. Outside a callback this calls data, eof and result itself, so *s may be
 * freed when it returns; inside one it happens after the callback. */
void stream_resume(struct stream *s, uint8_t chan);
void stream_signal(struct stream *s, int sig);
void stream_resize(struct stream *s, uint16_t rows, uint16_t cols);
void stream_reset(struct stream *s); /* kill it; result still comes */
/* No more callbacks: what still comes is thrown away, and the stream goes when its RESULT came. For
 * an owner that goes first; usually after stream_reset. *s is not to be used afterwards. */
void stream_abandon(struct stream *s);
uint32_t stream_id(const struct stream *s);
uint32_t session_streams(const struct session *s);
