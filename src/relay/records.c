#include "relay/records.h"

#include <limits.h>
#include <sodium.h>
#include <unistd.h>

/*
 * A line is at most PIPE_BUF bytes, which a pipe takes whole or not at all (pipe(7)): readers never see half of one, and what
 * was not taken has used no number and left no trace in the chain.
 */

static void chain(struct records *s, const uint8_t *line, size_t n)
{
	uint8_t sum[crypto_hash_sha256_BYTES];

	(void)crypto_hash_sha256(sum, line, n);
	(void)sodium_bin2hex(s->prev_hash, sizeof(s->prev_hash), sum, sizeof(sum));
}

bool records_write(struct records *s, const struct judge *j, const struct judge_record *r, const struct judge_who *who)
{
	struct judge_place at = {.seq = s->seq, .prev_hash = s->prev_hash, .lost = s->lost};
	static struct buf line = {.max = PIPE_BUF}; /* of the one thread */
	bool ok;

	ok = judge_line(j, r, who, &at, &line) == 0 && write(s->pipe.fd, buf_head(&line), line.len) == (ssize_t)line.len;
	if (ok) {
		chain(s, buf_head(&line), line.len - 1);
		s->seq++;
		s->lost = 0;
	}
	buf_consume(&line, line.len);
	return ok;
}
