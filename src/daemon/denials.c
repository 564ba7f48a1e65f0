#include "daemon/denials.h"

#include <stdlib.h>
#include <string.h>

/* Bounds what a brig-spawn that tells of no end can make us keep. */
enum { LEFT_MAX = 4096 };

struct left {
	struct left *next;
	char id[BOX_ID_SIZE];
	uint64_t denied;
};

static json_int_t number(const json_t *said) { return json_integer_value(json_object_get(said, "denied")); }

static void add(struct daemon *d, uint64_t before, json_int_t n)
{
	if (n > 0 && (uint64_t)n > before)
		d->stats.denied += (uint64_t)n - before;
}

void denials_told(struct daemon *d, struct box *b, const json_t *said)
{
	json_int_t n = number(said);

	if (b->denied_known)
		add(d, b->denied, n);
	if (n >= 0 && (uint64_t)n >= b->denied) {
		b->denied = (uint64_t)n;
		b->denied_known = true;
	}
}

void denials_leave(struct daemon *d, const struct box *b)
{
	struct left *l;

	if (!b->denied_known)
		return;
	if (d->left_n == LEFT_MAX) /* their ends were lost with a brig-spawn, or they would have come */
		denials_close(d);
	l = calloc(1, sizeof(*l));
	if (l == NULL)
		return;
	memcpy(l->id, b->id, sizeof(l->id));
	l->denied = b->denied;
	l->next = d->left;
	d->left = l;
	d->left_n++;
}

void denials_ended(struct daemon *d, struct box *b, const char *id, const json_t *end)
{
	if (b != NULL) {
		denials_told(d, b, end);
		return;
	}
	for (struct left **at = &d->left; *at != NULL; at = &(*at)->next) {
		struct left *l = *at;

		if (strcmp(l->id, id) != 0)
			continue;
		add(d, l->denied, number(end));
		*at = l->next;
		d->left_n--;
		free(l);
		return;
	}
}

void denials_close(struct daemon *d)
{
	while (d->left != NULL) {
		struct left *l = d->left;

		d->left = l->next;
		free(l);
	}
	d->left_n = 0;
}
