#pragma once
/*
 * The sandboxes that live: a table by id. What brigd must know after a restart is also in the store (daemon/store.h);
 * whoever changes a field of that kind calls store_box_put.
 */
#include "base/err.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

enum {
	BOX_ID_SIZE = 22, /* 'i' and 20 of [a-z0-9], and NUL */
	BOX_WORD_SIZE = 64,
};

enum box_state {
#define BOX_STATE(id, word, text) BOX_##id,
#include "daemon/box_states.def"
#undef BOX_STATE
	BOX_STATES,
};

struct box {
	struct box *next; /* in its slot of the table */
	char id[BOX_ID_SIZE];
	char tenant[BOX_WORD_SIZE]; /* "" = in the pool */
	char template[BOX_WORD_SIZE];
	enum box_state state;
	int64_t started_ms, ends_ms; /* wall clock; ends_ms 0 = never */
	json_t *metadata;            /* owned; an object of strings */
	bool private_traffic;        /* ports need the traffic token */
	bool pause_at_end, auto_resume;
	bool no_internet; /* asked for without internet */
	bool warm;        /* it came from the pool, where it had used processor time */

	/* not in the store */
	bool killing;            /* it was ordered to end */
	bool pausing;            /* a pause or resume is under way */
	bool getting_ready;      /* in the pool: it was asked to say when it is ready */
	bool ready;              /* in the pool: all is done ahead that can be */
	bool seen;               /* in the list brig-spawn is telling */
	bool denied_known;	 /* since its start; of one found again, only what comes after the first look counts */
	uint64_t denied;	 /* attempts its gate had refused at the last look */
	unsigned sample_n;       /* metrics: cpu time at an earlier moment */
	uint64_t sample_cpu_us;
	int64_t sample_ms;
};

struct box_table {
	struct box **slot; /* owned */
	uint32_t slots, n;
	uint32_t count[BOX_STATES];
};

int must_check box_table_open(struct box_table *t);
void box_table_close(struct box_table *t); /* frees the boxes too */
/* NULL = out of memory. Owned by the table. */
struct box *box_add(struct box_table *t, const char *id, enum box_state state);
struct box *box_find(const struct box_table *t, const char *id);
void box_state_set(struct box_table *t, struct box *b, enum box_state state);
/* Take it out and free it. */
void box_drop(struct box_table *t, struct box *b);
/* The first, and the one behind b; in no order. NULL = the end. b may be dropped after its next was asked for. */
struct box *box_next(const struct box_table *t, const struct box *b);
/* A new id that cannot be guessed. */
void box_new_id(char dst[BOX_ID_SIZE]);
const char *box_state_word(enum box_state s);
/* -EINVAL = no such word. */
int box_state_parse(const char *word, enum box_state *ret);
