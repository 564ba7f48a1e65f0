#include "keep/watchers.h"

#include "keep/fsop.h"
#include "keep/rpc.h"
#include "keep/text.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

/*
 * filesystem.Filesystem CreateWatcher, GetWatcherEvents, RemoveWatcher. Events nobody fetches are
 * kept as far as WATCHER_BYTES go; then the agent waits, and what the kernel loses meanwhile ends
 * the watcher with an error at the next fetch.
 */

struct watcher {
	struct watcher *next;
	struct keep *k;
	struct watch *w;   /* NULL = it has ended */
	struct talk *t;	   /* who waits for its start; NULL = told */
	struct buf events; /* JSON texts, with a comma after each */
	int err;
	char why[128];
	char id[24];
};

static void watcher_free(struct watcher *w)
{
	struct watchers *ws = &w->k->watchers;
	struct watcher **at = &ws->first;

	while (*at != NULL && *at != w)
		at = &(*at)->next;
	if (*at == w) {
		*at = w->next;
		ws->n--;
	}
	watch_drop(w->w);
	buf_done(&w->events);
	free(w);
}

static bool on_room(void *arg)
{
	const struct watcher *w = arg;

	return w->events.len < WATCHER_BYTES;
}

static void on_event(void *arg, const char *text, size_t n)
{
	struct watcher *w = arg;

	if (buf_put(&w->events, text, n) < 0 || buf_put(&w->events, ",", 1) < 0)
		w->err = ENOMEM;
}

static void settle(struct watcher *w)
{
	w->t->ops = NULL;
	w->t->arg = NULL;
	w->t = NULL;
}

static void on_started(void *arg)
{
	struct watcher *w = arg;
	struct talk *t = w->t;

	if (t == NULL)
		return;
	settle(w);
	talk_json(t, 200, json_pack("{s:s}", "watcherId", w->id));
}

static void on_ended(void *arg, int err, const char *text)
{
	struct watcher *w = arg;
	struct talk *t = w->t;

	w->w = NULL;
	w->err = w->err != 0 ? w->err : err;
	(void)snprintf(w->why, sizeof(w->why), "%s", text);
	if (t == NULL)
		return;
	settle(w);
	fs_fail(t, err, "", text);
	watcher_free(w);
}

static const struct watch_ops watch_ops = {
    .room = on_room, .event = on_event, .started = on_started, .ended = on_ended};

/* Its client went before it began. */
static void on_closed(struct talk *t) { watcher_free(t->arg); }

static const struct talk_ops talk_ops = {.closed = on_closed};

void watchers_open(struct talk *t, const struct watch_want *want)
{
	struct watchers *ws = &t->k->watchers;
	struct watcher *w = ws->n < WATCHERS_MAX ? calloc(1, sizeof(*w)) : NULL;
	struct err e = ERR_INIT;
	uint64_t id = 0;

	if (w == NULL) {
		fail(t, FAIL_RESOURCE_EXHAUSTED, "more than %d watchers", WATCHERS_MAX);
		return;
	}
	w->k = t->k;
	w->t = t;
	buf_init(&w->events, WATCHER_BYTES + 2 * CALL_PIECE_MAX);
	(void)!getrandom(&id, sizeof(id), 0);
	(void)snprintf(w->id, sizeof(w->id), "w%016llx", (unsigned long long)id);
	w->next = ws->first;
	ws->first = w;
	ws->n++;
	t->ops = &talk_ops;
	t->arg = w;
	if (watch_open(t->k, want, &watch_ops, w, &w->w, &e) < 0) {
		settle(w);
		watcher_free(w);
		fail(t, FAIL_RESOURCE_EXHAUSTED, "%s", e.msg);
	}
}

static struct watcher *find(struct talk *t, const json_t *req)
{
	const char *id = rpc_text(rpc_get(req, "watcherId", "watcher_id"));
	struct watcher *w = t->k->watchers.first;

	while (w != NULL && (id == NULL || w->t != NULL || strcmp(w->id, id) != 0))
		w = w->next;
	if (w == NULL)
		fail(t, FAIL_NOT_FOUND, "watcher with id %s not found", id != NULL ? id : "(none)");
	return w;
}

void filesystem_get_watcher_events(struct talk *t, json_t *req)
{
	struct watcher *w = find(t, req);
	struct buf b;

	if (w == NULL)
		return;
	if (w->events.len == 0 && w->w == NULL && w->err != 0) {
		fail(t, FAIL_RESOURCE_EXHAUSTED, "the watcher has ended: %s", w->why);
		return;
	}
	buf_init(&b, WATCHER_BYTES + 3 * CALL_PIECE_MAX);
	if (text_put(&b, "{\"events\":[") < 0 ||
	    (w->events.len > 0 && buf_put(&b, buf_head(&w->events), w->events.len - 1) < 0) ||
	    text_put(&b, "]}") < 0) {
		talk_cut(t);
	} else {
		buf_done(&w->events);
		talk_answer(t, 200, "application/json", &b);
	}
	buf_done(&b);
	if (w->w != NULL)
		watch_resume(w->w);
}

void filesystem_remove_watcher(struct talk *t, json_t *req)
{
	struct watcher *w = find(t, req);

	if (w == NULL)
		return;
	watcher_free(w);
	rpc_empty(t);
}

void watchers_done(struct keep *k)
{
	while (k->watchers.first != NULL)
		watcher_free(k->watchers.first);
}
