#include "image/contents.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* Open addressing: the capacity is a power of two, at most half of it used. */

struct slot {
	dev_t dev;
	ino_t ino; /* 0 = free */
	uint8_t sum[CONTENTS_SUM];
};

struct contents {
	struct slot *v;
	size_t n, cap;
};

struct contents *contents_new(void) { return calloc(1, sizeof(struct contents)); }

void contents_free(struct contents *c)
{
	if (c != NULL)
		free(c->v);
	free(c);
}

static struct slot *slot_of(struct slot *v, size_t cap, dev_t dev, ino_t ino)
{
	size_t i = (size_t)(ino * UINT64_C(0x9e3779b97f4a7c15) >> 20) & (cap - 1);

	while (v[i].ino != 0 && (v[i].ino != ino || v[i].dev != dev))
		i = (i + 1) & (cap - 1);
	return &v[i];
}

static bool grow(struct contents *c)
{
	size_t cap = c->cap == 0 ? 64 : c->cap * 2;
	struct slot *v;

	if (c->n * 2 < c->cap)
		return true;
	v = c->n >= CONTENTS_MAX ? NULL : calloc(cap, sizeof(*v));
	if (v == NULL)
		return false;
	for (size_t i = 0; i < c->cap; i++)
		if (c->v[i].ino != 0)
			*slot_of(v, cap, c->v[i].dev, c->v[i].ino) = c->v[i];
	free(c->v);
	c->v = v;
	c->cap = cap;
	return true;
}

void contents_put(struct contents *c, dev_t dev, ino_t ino, const uint8_t sum[CONTENTS_SUM])
{
	struct slot *s;

	if (ino == 0 || !grow(c))
		return;
	s = slot_of(c->v, c->cap, dev, ino);
	c->n += s->ino == 0;
	s->dev = dev;
	s->ino = ino;
	memcpy(s->sum, sum, CONTENTS_SUM);
}

const uint8_t *contents_find(const struct contents *c, dev_t dev, ino_t ino)
{
	const struct slot *s = c->cap == 0 ? NULL : slot_of(c->v, c->cap, dev, ino);

	return s != NULL && s->ino != 0 ? s->sum : NULL;
}
