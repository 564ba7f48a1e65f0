#include "keep/proc.h"

#include "session/session.h"

#include <errno.h>

/* What clients write to a process's stdin: in the order it came, as fast as the agent takes it.
 * Each client is told when its bytes are taken, or that nobody will. */

void proc_feeds_end(struct proc *p)
{
	p->in = false;
	while (p->feeds != NULL) {
		struct feed *f = p->feeds;

		p->feeds = f->next;
		f->done(f, EPIPE);
	}
}

void proc_pump(struct proc *p)
{
	while (p->feeds != NULL && p->in && p->x.s != NULL) {
		struct feed *f = p->feeds;

		if (f->off < f->n) {
			ssize_t n = stream_write(p->x.s, f->data + f->off, f->n - f->off);

			if (n < 0)
				break; /* `broken` was told */
			if (n == 0)
				return;
			f->off += (size_t)n;
			continue;
		}
		if (f->eof) {
			stream_eof(p->x.s);
			p->in = false;
		}
		p->feeds = f->next;
		f->done(f, 0);
	}
	if (!p->in || p->x.s == NULL)
		proc_feeds_end(p);
}

void proc_feed(struct proc *p, struct feed *f)
{
	struct feed **at = &p->feeds;

	while (*at != NULL)
		at = &(*at)->next;
	f->next = NULL;
	*at = f;
	if (p->feeds == f)
		proc_pump(p);
}

void proc_unfeed(struct proc *p, struct feed *f)
{
	struct feed **at = &p->feeds;

	while (*at != NULL && *at != f)
		at = &(*at)->next;
	if (*at != NULL)
		*at = f->next;
}
