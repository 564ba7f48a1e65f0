#pragma once
/*
 * A job is the agent's side of one stream: what was asked for, its channels, its process, its end.
 * Everything here is bookkeeping and channel traffic; starting processes is launch.h, killing them
 * sweep.h. Jobs end in one place only: job_settle sends RESULT and frees.
 */
#include "guest/ask.h"
#include "guest/credit.h"
#include "guest/peer.h"

#include <sys/types.h>

struct job_in { /* CHAN_IN: host -> sandbox */
	int fd;    /* non-blocking, -1 = gone: bytes are thrown away */
	bool eof;  /* the host sent EOF */
	bool told; /* BROKEN was sent */
	struct window win;
	struct buf pend; /* accepted, not yet written; at most FRAME_WINDOW bytes */
};

struct job_out { /* CHAN_OUT, CHAN_ERR: sandbox -> host */
	int fd;    /* non-blocking, -1 = none */
	bool open; /* EOF was not sent yet */
	bool much; /* the last read took all it asked for */
	uint32_t credit;
	int64_t drain; /* after the process ended: bytes still to take at most; -1 = until end of file */
	bool parked;   /* a terminal that nobody has open just now: not polled */
	uint64_t look_ns; /* when to look at it again, 0 = not set yet */
};

struct job_end {
	enum result_how how;
	uint32_t code;
	int err;
	char text[256];
	uint64_t utime_us, stime_us, maxrss_kib;
};

enum job_medium { JOB_PIPES, JOB_TTY, JOB_SOCKET };

struct job {
	struct job *next; /* list of lingering guards */
	uint32_t id;
	enum req_kind kind;
	uint32_t flags;
	enum job_medium medium;
	struct job_in in;
	struct job_out out[2]; /* CHAN_OUT - 1, CHAN_ERR - 1 */
	pid_t pid;     /* our child: the command, a worker or a guard; 0 = none or reaped */
	pid_t cmd;     /* the command itself; 0 = not known (yet) */
	int status_fd; /* what the child tells, -1 = none */
	bool watch_status; /* poll status_fd (else it is read when the child ends) */
	bool guarded, leaf;
	bool given;        /* the starter starts it: pid and cmd come through status_fd */
	bool copied;       /* its child is a copy of PID 1 */
	bool connecting;   /* port: connect(2) is under way */
	bool reset;        /* the host ended it */
	bool sweeping;     /* its processes are being ended by sweep.c */
	uint16_t calm;     /* rounds of that, one after another, that saw nobody alive */
	bool ended;        /* `end` holds; RESULT goes out when the channels are drained */
	bool closed;       /* RESULT was sent; only the guard is left */
	bool inside;       /* a process of the sandbox asked, over conn_fd; no stream of the host's */
	bool ready;        /* with it: the request was read */
	int conn_fd;       /* with it: the caller, who is answered there; -1 = gone */
	uint64_t sweep_ns; /* with it: when its processes are to be ended, CLOCK_MONOTONIC; 0 = not */
	uint64_t early_signals; /* bit per signal that came before cmd was known */
	uint64_t start_ns, kill_at_ns; /* CLOCK_MONOTONIC; kill_at_ns 0 = never */
	uint64_t hang_up_ns; /* ended on a terminal: when to stop waiting for its other users; 0 = not set */
	struct job_end end;
};

struct agent;

struct job *job_new(uint32_t id, const struct ask *q); /* NULL: no memory */
void job_free(struct job *j); /* closes and frees; kills nothing */

/* Frames of the host for this job. 0, -EPROTO. */
int must_check job_data(struct peer *p, struct job *j, const uint8_t *data, uint32_t n);
int must_check job_credit(struct job *j, uint8_t chan, uint32_t n);
void job_eof(struct job *j, struct peer *p);
void job_broken(struct job *j, struct peer *p, uint8_t chan);

/* Move bytes: pend -> in.fd, out.fd -> frames. Never block. */
void job_write_in(struct peer *p, struct job *j);
void job_read_out(struct peer *p, struct job *j, uint8_t chan);
/* The reader of in.fd is gone. */
void job_in_gone(struct peer *p, struct job *j, int err);

/* Record how it ended (the first record counts) and start draining its channels. */
void job_end_error(struct job *j, int err, const char *text);
void job_end_wait(struct job *j, int st, uint64_t utime_us, uint64_t stime_us, uint64_t maxrss_kib);
void job_end_done(struct job *j);
/* How it ended, as the message of a RESULT. 0 or -errno. */
int must_check job_result(const struct job *j, uint64_t now_ns, struct buf *b);
/* True when RESULT was queued: the job's stream is closed. */
bool job_settle(struct peer *p, struct job *j, uint64_t now_ns);
