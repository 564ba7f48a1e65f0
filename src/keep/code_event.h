#pragma once
/* One line of a kernel's (src/interp/interp.h says who writes it): hostile, so read strictly. */
#include "base/buf.h"

#include <jansson.h>
#include <stddef.h>

enum code_event_type {
#define EVENT(id, type, ...) CODE_##id,
#include "keep/code_events.def"
#undef EVENT
	CODE_EVENTS
};

enum {
	CODE_LINE_MAX = 8 * 1024 * 1024, /* bytes of a line */
	CODE_VALUES_MAX = 200000,	 /* values in it, by its commas and brackets */
};

/* Which event p[0..n) is, without its line end; *ret is owned then. -EPROTO: none, or one with
 * other fields than its row has; -E2BIG. */
int must_check code_event(const void *p, size_t n, json_t **ret);
/* Append it as clients get it: JSON in ASCII and a line end. 0, -ENOMEM, -ENOBUFS. */
int must_check code_event_put(struct buf *b, json_t *event);
