/* Answers come from keepers: at most 64 KiB of JSON, strict, and no longer waited for than the caller said. */
#include "daemon/ask_json.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { ANSWER_MAX = 64 * 1024 };

struct ask_json {
	struct ask_json *next;
	struct ask_list *list;
	struct ask *ask;
	ask_done_fn *done;
	void *owner;
	uint64_t until_ms;
	unsigned status;
	struct buf body;
};

static void drop(struct ask_json *j)
{
	struct ask_json **p = &j->list->first;

	while (*p != j)
		p = &(*p)->next;
	*p = j->next;
	ask_drop(j->ask);
	buf_done(&j->body);
	free(j);
}

static void finish(struct ask_json *j, bool whole)
{
	ask_done_fn *done = j->done;
	void *owner = j->owner;
	unsigned status = whole ? j->status : 0;
	json_t *answer = NULL;

	if (whole && j->body.len > 0)
		answer = json_loadb((const char *)buf_head(&j->body), j->body.len, JSON_REJECT_DUPLICATES, NULL);
	drop(j);
	if (done != NULL)
		done(owner, status, answer);
	json_decref(answer);
}

static void notify(struct ask *a, void *owner)
{
	struct ask_json *j = owner;
	struct call_head h;
	enum ask_phase phase = ask_look(a);

	if (phase == ASK_HEAD) {
		if (ask_answer(a, &h) < 0) {
			finish(j, false);
			return;
		}
		j->status = h.status;
		ask_body_begin(a);
		phase = ask_look(a);
	}
	while (phase == ASK_BODY) {
		uint8_t *dst = buf_reserve(&j->body, 4096);
		size_t n;

		if (dst == NULL) {
			finish(j, false);
			return;
		}
		n = ask_read(a, dst, 4096);
		buf_commit(&j->body, n);
		phase = ask_look(a);
		if (n == 0)
			break;
	}
	if (phase == ASK_DONE || phase == ASK_CUT)
		finish(j, phase == ASK_DONE);
}

static int send_question(struct ask *a, const char *method, const char *target, const json_t *body)
{
	static const struct call_field type[] = {{"content-type", "application/json"}};
	char *text = body != NULL ? json_dumps(body, JSON_COMPACT) : NULL;
	size_t n = text != NULL ? strlen(text) : 0, at = 0;
	int r = body != NULL && text == NULL ? -ENOMEM : ask_request(a, method, target, type, text != NULL);

	while (r == 0 && at < n) {
		ssize_t some = ask_put(a, text + at, n - at);

		if (some <= 0)
			r = some < 0 ? (int)some : -EMSGSIZE;
		else
			at += (size_t)some;
	}
	free(text);
	return r == 0 ? ask_put_end(a) : r;
}

int ask_json_open(struct ask_list *list, struct loop *l, const char *path, const char *method, const char *target,
		  const json_t *body, uint64_t limit_ms, ask_done_fn *done, void *owner)
{
	struct ask_json *j = calloc(1, sizeof(*j));
	int r;

	if (j == NULL)
		return -ENOMEM;
	*j = (struct ask_json){.list = list, .done = done, .owner = owner, .until_ms = loop_clock_ms() + limit_ms};
	buf_init(&j->body, ANSWER_MAX);
	r = ask_open(l, path, notify, j, &j->ask);
	if (r == 0)
		r = send_question(j->ask, method, target, body);
	if (r < 0) {
		ask_drop(j->ask);
		free(j);
		return r;
	}
	j->next = list->first;
	list->first = j;
	return 0;
}

void ask_json_tick(struct ask_list *list, uint64_t now_ms)
{
	bool again = true;

	while (again) { /* done may change the list */
		again = false;
		for (struct ask_json *j = list->first; j != NULL; j = j->next)
			if (j->until_ms <= now_ms) {
				finish(j, false);
				again = true;
				break;
			}
	}
}

void ask_json_forget(struct ask_list *list, const void *owner)
{
	for (struct ask_json *j = list->first; j != NULL; j = j->next)
		if (j->owner == owner)
			j->done = NULL;
}

void ask_json_close(struct ask_list *list)
{
	while (list->first != NULL)
		drop(list->first);
}
