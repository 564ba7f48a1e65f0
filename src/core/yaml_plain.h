#pragma once
/*
 * YAML event by event, plain forms only: maps, lists and scalars of one document. Aliases, anchors and tags (an
 * alias bomb grows a few lines into gigabytes) and NUL bytes are refused where they stand. The text is
 * hostile; its length was bounded by the caller.
 */
#include "base/err.h"

#include <stddef.h>
#include <yaml.h>

struct yaml_plain {
	const char *file; /* its name in messages; borrowed */
	const char *kind; /* "profile": what the file is, in messages */
	struct err *e;
	yaml_parser_t parser;
	yaml_event_t ev; /* the current one, valid until the next */
	bool have_ev;
};

/* text is borrowed until yaml_plain_done. 0, or a failure after which there is nothing to release. */
int must_check yaml_plain_open(struct yaml_plain *y, const char *text, size_t len);
void yaml_plain_done(struct yaml_plain *y);
/* Up to the event behind the start of the one map a file is. `needs`: "version: 1", what a file has at least. */
int must_check yaml_plain_begin(struct yaml_plain *y, const char *needs);
/* The next event into y->ev. 0, or an error that names file and line. */
int must_check yaml_plain_next(struct yaml_plain *y);
/* After the end of that map: nothing may follow. */
int must_check yaml_plain_end(struct yaml_plain *y);

/* Of the current event: its line, from 1; the text of a scalar. */
static inline int yaml_plain_line(const struct yaml_plain *y) { return (int)y->ev.start_mark.line + 1; }
static inline const char *yaml_plain_word(const struct yaml_plain *y)
{
	return (const char *)y->ev.data.scalar.value;
}
/* "FILE:LINE: ..." as ERR_INVALID. Returns -EINVAL. */
int yaml_plain_say(struct yaml_plain *y, int line, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
