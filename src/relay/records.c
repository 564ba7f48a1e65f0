#include "relay/records.h"

#include <limits.h>
#include <sodium.h>
#include <unistd.h>

/*
 * A line is at most PIPE_BUF bytes, which a pipe takes whole or not at all (pipe(7)): readers never see half of one, and what
 * was not taken has used no number and left no trace in the chain.
 */

void records_init(struct records *s, void (*ready)(struct source *s, uint32_t events))
{
	*s = (struct records){.pipe = {.ready = ready, .fd = -1}, .line = {.max = PIPE_BUF}};
}

void records_done(struct records *s)
{
	loop_drop(&s->pipe);
	buf_done(&s->line);
}

void records_settle(struct records *s)
{
	uint8_t sum[crypto_hash_sha256_BYTES];

	if (s->line.len == 0)
		return;
	(void)crypto_hash_sha256(sum, buf_head(&s->line), s->line.len - 1);
	(void)sodium_bin2hex(s->prev_hash, sizeof(s->prev_hash), sum, sizeof(sum));
	buf_consume(&s->line, s->line.len);
}

bool records_write(struct records *s, const struct judge *j, const struct judge_record *r, const struct judge_who *who)
{
	struct judge_place at = {.seq = s->seq, .prev_hash = s->prev_hash, .lost = s->lost};

	records_settle(s);
	if (judge_line(j, r, who, &at, &s->line) < 0 ||
	    write(s->pipe.fd, buf_head(&s->line), s->line.len) != (ssize_t)s->line.len) {
		buf_consume(&s->line, s->line.len);
		return false;
	}
	s->seq++;
	s->lost = 0;
	return true;
}
