/* A table of chains that grows with what is in it. Ids come from clients when they are looked for, and from brigd itself
 * when they are added. */
#include "daemon/box.h"

#include "base/num.h"

#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SLOTS_FIRST = 256 };

static const char *const words[] = {
#define BOX_STATE(id, word, text) word,
#include "daemon/box_states.def"
#undef BOX_STATE
};

const char *box_state_word(enum box_state s) { return words[s]; }

int box_state_parse(const char *word, enum box_state *ret)
{
	for (uint32_t i = 0; i < ARRAY_LEN(words); i++)
		if (strcmp(words[i], word) == 0) {
			*ret = (enum box_state)i;
			return 0;
		}
	return -EINVAL;
}

static uint32_t hash_of(const char *id)
{
	uint32_t h = 2166136261u;

	for (; *id != '\0'; id++)
		h = (h ^ (uint8_t)*id) * 16777619u;
	return h;
}

int box_table_open(struct box_table *t)
{
	*t = (struct box_table){.slots = SLOTS_FIRST};
	t->slot = calloc(t->slots, sizeof(struct box *));
	return t->slot == NULL ? -ENOMEM : 0;
}

static void box_free(struct box *b)
{
	json_decref(b->metadata);
	free(b);
}

void box_table_close(struct box_table *t)
{
	for (uint32_t i = 0; t->slot != NULL && i < t->slots; i++)
		while (t->slot[i] != NULL) {
			struct box *b = t->slot[i];

			t->slot[i] = b->next;
			box_free(b);
		}
	free(t->slot);
	*t = (struct box_table){.slot = NULL};
}

static void put(struct box **slot, uint32_t slots, struct box *b)
{
	struct box **s = &slot[hash_of(b->id) % slots];

	b->next = *s;
	*s = b;
}

static void grow(struct box_table *t)
{
	uint32_t slots = t->slots * 2;
	struct box **slot = calloc(slots, sizeof(struct box *));

	if (slot == NULL)
		return; /* longer chains, then */
	for (uint32_t i = 0; i < t->slots; i++)
		while (t->slot[i] != NULL) {
			struct box *b = t->slot[i];

			t->slot[i] = b->next;
			put(slot, slots, b);
		}
	free(t->slot);
	t->slot = slot;
	t->slots = slots;
}

struct box *box_add(struct box_table *t, const char *id, enum box_state state)
{
	struct box *b = calloc(1, sizeof(*b));

	if (b == NULL)
		return NULL;
	b->metadata = json_object();
	if (b->metadata == NULL) {
		free(b);
		return NULL;
	}
	(void)snprintf(b->id, sizeof(b->id), "%s", id);
	b->state = state;
	b->denied_known = true;
	if (t->n >= t->slots)
		grow(t);
	put(t->slot, t->slots, b);
	t->n++;
	t->count[state]++;
	return b;
}

struct box *box_find(const struct box_table *t, const char *id)
{
	struct box *b = t->slot[hash_of(id) % t->slots];

	while (b != NULL && strcmp(b->id, id) != 0)
		b = b->next;
	return b;
}

void box_state_set(struct box_table *t, struct box *b, enum box_state state)
{
	t->count[b->state]--;
	t->count[state]++;
	b->state = state;
}

void box_drop(struct box_table *t, struct box *b)
{
	struct box **s = &t->slot[hash_of(b->id) % t->slots];

	while (*s != b)
		s = &(*s)->next;
	*s = b->next;
	t->n--;
	t->count[b->state]--;
	box_free(b);
}

struct box *box_next(const struct box_table *t, const struct box *b)
{
	uint32_t i = 0;

	if (b != NULL && b->next != NULL)
		return b->next;
	if (b != NULL)
		i = hash_of(b->id) % t->slots + 1;
	for (; i < t->slots; i++)
		if (t->slot[i] != NULL)
			return t->slot[i];
	return NULL;
}

void box_new_id(char dst[BOX_ID_SIZE])
{
	static const char set[] = "abcdefghijklmnopqrstuvwxyz0123456789";

	dst[0] = 'i';
	for (size_t i = 1; i < BOX_ID_SIZE - 1; i++)
		dst[i] = set[randombytes_uniform(sizeof(set) - 1)];
	dst[BOX_ID_SIZE - 1] = '\0';
}
