#include "guest/credit.h"

#include "wire/frame.h"

#include <errno.h>

/* Fed with numbers from the host's frames, not trusted to be sane. The invariant of a window:
 * left + owed + bytes in our hands == FRAME_WINDOW, so no peer can make us hold more than that. */

enum { GRANT_MIN = FRAME_WINDOW / 4 };

int credit_add(uint32_t *credit, uint32_t n)
{
	if (*credit > FRAME_CREDIT_MAX || n > FRAME_CREDIT_MAX - *credit)
		return -EPROTO;
	*credit += n;
	return 0;
}

void window_init(struct window *w) { *w = (struct window){.left = FRAME_WINDOW}; }

int window_take(struct window *w, uint32_t n)
{
	if (n > w->left)
		return -EPROTO;
	w->left -= n;
	return 0;
}

uint32_t window_give(struct window *w, uint32_t n)
{
	uint32_t grant;

	w->owed += n;
	if (w->owed < GRANT_MIN)
		return 0;
	grant = w->owed;
	w->owed = 0;
	w->left += grant;
	return grant;
}
