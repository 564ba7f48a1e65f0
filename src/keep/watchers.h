#pragma once
/* Watches whose events are fetched by calls of their own, and the stream of one. */
#include "keep/watch.h"

struct talk;

enum { WATCHERS_MAX = 64, WATCHER_BYTES = 1024 * 1024 };

struct watchers {
	struct watcher *first;
	uint32_t n;
};

/* Open one and answer {"watcherId"}. */
void watchers_open(struct talk *t, const struct watch_want *want);
/* Answer with a stream of events. */
void watch_stream(struct talk *t, const struct watch_want *want);
void watchers_done(struct keep *k); /* the sandbox ends */
