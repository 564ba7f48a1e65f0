#pragma once
/* What the HTTP side of files needs beside the agent: dates, ranges, names in header fields,
 * metadata. Pure. */
#include "base/buf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

struct msg_writer;
struct talk;

enum { FILES_DATE = 32, FILES_DISPOSITION = 3 * 4096 + 128 };

/* An HTTP date (RFC 9110 5.6.7), and back; false for anything but the preferred form. */
void files_date(time_t at, char dst[FILES_DATE]);
bool files_date_read(const char *s, time_t *ret);

enum files_range { RANGE_NONE, RANGE_OK, RANGE_UNMET };
/* One range of bytes of a file (RFC 9110 14.1.2). NONE: no field, another unit, several ranges: all
 * is sent. OK: first and n of it. */
enum files_range files_range(const char *field, uint64_t size, uint64_t *first, uint64_t *n);
/* "inline; filename=..." for the last part of path (RFC 6266). */
void files_disposition(const char *path, char *dst, size_t size);

/* The X-Metadata-* fields of t's head, as what a WRITE sets. 0; -EINVAL: not printable, a key that
 * is empty or longer than 246 bytes, more than 4096 bytes in all. */
int files_metadata(const struct talk *t, struct msg_writer *w);
/* Append {"path","name","type":"file","metadata"?}. 0, -ENOBUFS, -ENOMEM. */
int files_written(const struct talk *t, const char *path, struct buf *b);

/* A failed file request, in the statuses of /files. */
void files_fail(struct talk *t, int err, const char *path, const char *text);
