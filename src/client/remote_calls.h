#pragma once
/*
 * What goes to a process of a sandbox while it runs, as calls of process.Process: input in order
 * and one piece at a time, so that a program that does not read stops its writer; and beside it,
 * also in order, signals and the size of its terminal.
 */
#include "client/api.h"

enum { REMOTE_CHUNK = 512 * 1024 };

struct remote_lane {
	struct http_call call; /* under way if text is not NULL */
	char *text;	       /* its body, owned */
};

struct remote_calls {
	struct client *c;
	const struct box_ref *box;
	uint32_t pid;
	bool begun;	      /* pid is known */
	bool in, tty;	      /* standard input is forwarded; as a terminal's */
	bool in_ended, close; /* it has come to its end; that is to be told */
	int sig[8];
	unsigned sigs;
	bool resize;
	uint16_t rows, cols;
	uint8_t *chunk; /* owned: REMOTE_CHUNK bytes, chunk_n to be sent */
	size_t chunk_n;
	struct remote_lane input, control;
};

void remote_calls_init(struct remote_calls *r, struct client *c, const struct box_ref *box, bool in,
		       bool tty);
void remote_calls_done(struct remote_calls *r);
/* The process has started. */
void remote_calls_begin(struct remote_calls *r, uint32_t pid);
void remote_calls_signal(struct remote_calls *r, int sig);
void remote_calls_resize(struct remote_calls *r, uint16_t rows, uint16_t cols);
/* Whether standard input is to be waited for, and reading it. */
bool remote_calls_reads(const struct remote_calls *r);
void remote_calls_read(struct remote_calls *r);
/* Look after the calls under way, and begin the next. True = one was begun. */
bool remote_calls_turn(struct remote_calls *r);
