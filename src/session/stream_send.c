#include "base/num.h"
#include "session/session_priv.h"

/*
 * What the caller sends on a stream: bytes, limited by the credit the agent gave and by the session's queue, their end,
 * signals. On a stream that has ended, or whose session has, nothing is sent and nothing said: its result tells.
 */

static bool tx_open_for(const struct stream *st)
{
	return !st->ended && st->s->dead == 0 && !st->s->doomed;
}

ssize_t stream_write(struct stream *st, const void *p, size_t n)
{
	struct session *s = st->s;
	const uint8_t *b = p;
	size_t done = 0;

	if (st->tx_broken || st->tx_eof || !tx_open_for(st) || s->tx_dead)
		return -EPIPE;
	while (done < n && st->tx_credit > 0 && s->out.len < TX_DATA_HIGH) {
		size_t k = MIN(MIN(n - done, (size_t)FRAME_MAX), (size_t)st->tx_credit);

		tx_frame(s, FRAME_DATA, st->id, CHAN_IN, b + done, k);
		if (s->fail != 0)
			return -EPIPE;
		st->tx_credit -= (uint32_t)k;
		done += k;
	}
	if (done < n)
		st->tx_waits = true;
	return (ssize_t)done;
}

void stream_eof(struct stream *st)
{
	if (st->tx_eof || st->tx_broken || !tx_open_for(st))
		return;
	st->tx_eof = true;
	tx_frame(st->s, FRAME_EOF, st->id, CHAN_IN, NULL, 0);
}

void stream_signal(struct stream *st, int sig)
{
	if (tx_open_for(st) && sig > 0)
		tx_u32(st->s, FRAME_SIGNAL, st->id, 0, (uint32_t)sig);
}

void stream_resize(struct stream *st, uint16_t rows, uint16_t cols)
{
	uint8_t le[4];

	if (!tx_open_for(st))
		return;
	store_le16(le, rows);
	store_le16(le + 2, cols);
	tx_frame(st->s, FRAME_RESIZE, st->id, 0, le, sizeof(le));
}

void stream_reset(struct stream *st)
{
	if (tx_open_for(st))
		tx_frame(st->s, FRAME_RESET, st->id, 0, NULL, 0);
}
