#include "keep/inflate.h"

#include <errno.h>
#include <stdlib.h>
#include <zlib.h>

/* zlib over a client's bytes. What follows the end of the gzip is thrown away. */

enum { BLOCK = 32 * 1024, GZIP_ONLY = 16 + 15 };

struct inflate {
	z_stream z;
	bool ended, full; /* full: the last step filled the block, so there may be more */
	size_t off, n;	  /* of the block, not taken yet */
	uint8_t block[BLOCK];
};

struct inflate *inflate_new(void)
{
	struct inflate *g = calloc(1, sizeof(*g));

	if (g != NULL && inflateInit2(&g->z, GZIP_ONLY) != Z_OK) {
		free(g);
		return NULL;
	}
	return g;
}

void inflate_free(struct inflate *g)
{
	if (g == NULL)
		return;
	(void)inflateEnd(&g->z);
	free(g);
}

ssize_t inflate_step(struct inflate *g, const uint8_t *p, size_t n, const uint8_t **ret,
		     size_t *ret_n)
{
	size_t took = 0;
	int r;

	if (g->n == 0 && g->ended) {
		took = n;
	} else if (g->n == 0) {
		/* NOLINTNEXTLINE(performance-no-int-to-ptr): it is only read */
		g->z.next_in = (z_const Bytef *)(uintptr_t)p;
		g->z.avail_in = (uInt)(n < BLOCK ? n : BLOCK);
		took = g->z.avail_in;
		g->z.next_out = g->block;
		g->z.avail_out = BLOCK;
		r = inflate(&g->z, Z_NO_FLUSH);
		if (r != Z_OK && r != Z_STREAM_END && r != Z_BUF_ERROR)
			return -EBADMSG;
		took -= g->z.avail_in;
		g->ended = r == Z_STREAM_END;
		g->off = 0;
		g->n = BLOCK - g->z.avail_out;
		g->full = g->z.avail_out == 0 && !g->ended;
	}
	*ret = g->block + g->off;
	*ret_n = g->n;
	return (ssize_t)took;
}

void inflate_taken(struct inflate *g, size_t n)
{
	g->off += n;
	g->n -= n;
}

bool inflate_pending(const struct inflate *g) { return g != NULL && (g->n > 0 || g->full); }
bool inflate_ended(const struct inflate *g) { return g->ended; }
