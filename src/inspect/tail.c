#include "inspect/priv.h"

/*
 * What comes after requests: bytes both ways once an upgrade was agreed on, the server's still looked through for secrets; and
 * the time in which what was said last is delivered.
 */

bool linger_step(struct conn *k)
{
	if (k->c.broken) {
		conn_end(k, "ended", true);
		return false;
	}
	if (k->c.out.len > 0)
		return false; /* the deadline watches */
	side_shut(&k->c);
	if (k->c.in.len > 0)
		buf_consume(&k->c.in, k->c.in.len);
	if (side_fill(&k->c) > 0)
		return true;
	if (k->c.ended || k->c.broken)
		conn_end(k, "ended", false);
	return false;
}

bool tunnel_step(struct conn *k)
{
	uint64_t found = 0;
	bool moved = false;

	if (k->u.out.len < SIDE_OUT_FULL && side_fill(&k->c) > 0)
		moved = true;
	if (k->c.in.len > 0 && k->u.out.len < SIDE_OUT_FULL) {
		if (buf_put(&k->u.out, buf_head(&k->c.in), k->c.in.len) < 0)
			k->u.broken = true;
		buf_consume(&k->c.in, k->c.in.len);
	}
	if (k->c.out.len < SIDE_OUT_FULL && side_fill(&k->u) > 0)
		moved = true;
	if ((k->u.in.len > 0 || k->u.ended) && !k->x.res_done && k->c.out.len < SIDE_OUT_FULL) {
		if (sieve_pass(&k->x.res_sieve, &k->b->redact, buf_head(&k->u.in), k->u.in.len, k->u.ended, &k->c.out,
			       &found) < 0)
			k->c.broken = true;
		buf_consume(&k->u.in, k->u.in.len);
		k->x.res_done = k->u.ended;
	}
	if (k->c.ended)
		side_shut(&k->u);
	if (k->x.res_done)
		side_shut(&k->c);
	if (k->c.broken || k->u.broken)
		conn_end(k, "reset", true);
	else if (k->c.shut && k->u.shut)
		conn_end(k, "ended", false);
	return moved;
}
