#pragma once
/* A call to a keeper whose question and answer are small JSON: what brigd itself wants of a sandbox. */
#include "daemon/ask.h"

#include <jansson.h>

struct ask_json;
struct ask_list {
	struct ask_json *first; /* all under way */
};

/*
 * done is called once, from the loop, never from inside ask_json_open: the status and the answer (borrowed; NULL = not JSON),
 * or status 0 when there was none within limit_ms. body: borrowed, NULL = none.
 */
typedef void ask_done_fn(void *owner, unsigned status, const json_t *answer);
int must_check ask_json_open(struct ask_list *list, struct loop *l, const char *path, const char *method,
			     const char *target, const json_t *body, uint64_t limit_ms, ask_done_fn *done,
			     void *owner);
/* End what has waited too long. To be called now and then. */
void ask_json_tick(struct ask_list *list, uint64_t now_ms);
/* Nobody waits for answers of this owner any more: done is not called. */
void ask_json_forget(struct ask_list *list, const void *owner);
/* All of them, without a word. */
void ask_json_close(struct ask_list *list);
