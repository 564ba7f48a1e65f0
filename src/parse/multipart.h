#pragma once
/*
 * multipart/form-data (RFC 7578, RFC 2046 5.1), read as it comes: memory is bounded, a part of any
 * size is handed on in pieces. Pure; the text is a client's.
 */
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { MULTIPART_BOUNDARY_MAX = 70, MULTIPART_HEAD_MAX = 16 * 1024, MULTIPART_NAME_MAX = 4096 };

enum multipart_event {
	MULTIPART_MORE, /* all of the input was taken */
	MULTIPART_PART, /* a part begins: name and filename hold */
	MULTIPART_DATA, /* data_n bytes of it at data, valid until the next step or change of the
			   input */
	MULTIPART_PART_END,
	MULTIPART_END, /* no more parts; what follows is to be left alone */
};

struct multipart {
	uint8_t state;
	char delim[MULTIPART_BOUNDARY_MAX + 5]; /* CR LF - - boundary NUL */
	size_t delim_n, matched;
	char head[MULTIPART_HEAD_MAX];
	size_t head_n;
	char name[MULTIPART_NAME_MAX], filename[MULTIPART_NAME_MAX]; /* "" = absent */
	const uint8_t *data;
	size_t data_n;
};

/* content_type: the field's value. 0, -EINVAL: it is not multipart/form-data with a boundary. */
int must_check multipart_init(struct multipart *m, const char *content_type);
/* One step over p[0..n): bytes taken, and what was met in *ret. -EBADMSG, -E2BIG for a part's head.
 */
ssize_t must_check multipart_step(struct multipart *m, const uint8_t *p, size_t n,
				  enum multipart_event *ret);
