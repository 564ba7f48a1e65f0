#pragma once
/*
 * The stream of process.Process/Start, read: envelopes (wire/envelope.h) of JSON events, then one
 * that ends it. It comes from a sandbox through a daemon, so it is hostile; what is not of the form
 * is -EPROTO, and memory is one message.
 */
#include "base/buf.h"

#include <stdbool.h>
#include <stdint.h>

enum { EVENT_MESSAGE_MAX = 256 * 1024, EVENT_TEXT_MAX = 512 };
enum event_channel { EVENT_STDOUT, EVENT_STDERR, EVENT_PTY };

struct events {
	/* The process runs. Once, before data. */
	void (*start)(void *arg, uint32_t pid);
	/* Bytes of it. 0 or -errno, which ends the reading. */
	int (*data)(void *arg, enum event_channel chan, const uint8_t *p, size_t n);
	void *arg;

	struct buf in;
	bool started;
	bool ended; /* the process did: by exit_code, or by a signal's number (0 = unknown) */
	bool exited;
	int exit_code, signal;
	bool closed; /* the stream came to its end, with a failure if code is not "" */
	char code[32], text[EVENT_TEXT_MAX]; /* foreign words */
};

void events_init(struct events *ev);
void events_done(struct events *ev);
/* Take in bytes. 0, -EPROTO, -ENOMEM, or what data returned. */
int must_check events_feed(struct events *ev, const void *p, size_t n);
