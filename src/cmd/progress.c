#include "cmd/progress.h"
/* Short copies say nothing, long ones at most four times a second and only when the number changed. */
#include "cmd/say.h"

#include <inttypes.h>
#include <stdio.h>

enum { FIRST_MS = 1000, EVERY_MS = 250 };

void progress_begin(struct progress *p, const char *what, uint64_t now_ms)
{
	if (!p->on)
		return;
	p->what = what;
	p->next_ms = now_ms + FIRST_MS;
	p->bytes = UINT64_MAX;
}

int progress_wait(const struct progress *p, uint64_t now_ms)
{
	if (p->what == NULL)
		return -1;
	return now_ms >= p->next_ms ? 0 : (int)(p->next_ms - now_ms);
}

void progress_show(struct progress *p, uint64_t now_ms, uint64_t bytes, bool below)
{
	char text[80];
	uint64_t tenths = bytes / 1024 * 10 / 1024;

	if (progress_wait(p, now_ms) != 0)
		return;
	p->next_ms = now_ms + EVERY_MS;
	if (bytes == p->bytes)
		return;
	p->bytes = bytes;
	(void)snprintf(text, sizeof(text), "brig: %s: %" PRIu64 ".%" PRIu64 " MiB", p->what, tenths / 10,
		       tenths % 10);
	say_status(text, below);
}

void progress_end(struct progress *p)
{
	if (p->what != NULL)
		say_status(NULL, false);
	p->what = NULL;
}
