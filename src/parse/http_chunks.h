#pragma once
/*
 * Chunked bodies of HTTP/1.1 (RFC 9112 7.1), read strictly. Extensions and trailers are checked and dropped; together
 * they may have HTTP_TRAILER_MAX bytes.
 */
#include "parse/http.h"

/* Where a body is. All zero before its first byte. */
struct http_chunks {
	uint8_t state;
	bool done;	/* the last chunk and its trailers are through */
	uint64_t left;	/* of this chunk */
	uint32_t spent; /* bytes of extensions and trailers so far */
};
/*
 * One step over p: how many bytes it took (0 = more is needed for one; or c->done). *data_n of
 * them, at *data, are content. -EBADMSG.
 */
ssize_t must_check http_chunks_step(struct http_chunks *c, const uint8_t *p, size_t n,
				    const uint8_t **data, size_t *data_n);
