/*
 * "METHOD TARGET", a line end, a body: what a client with a key asks of the control API, from the row that serves it to its
 * answer. The daemon is a real one whose brig-spawn is not there, so what needs it is refused. Each request is answered, none by
 * "internal error"; sandboxes stay as many as they were, and the other tenant's as it was.
 */
#include "api/request.h"

#include "base/num.h"
#include "daemon/store.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct config config;
static struct daemon d;

static int drop(const char *path, const struct stat *st, int kind, struct FTW *at)
{
	(void)st;
	(void)kind;
	(void)at;
	return remove(path);
}

static void begin(void)
{
	static const char text[] = "version: 1\nspawn: /nonexistent/spawn.sock\nstate: %s\nmax_timeout: 1h\ntemplates:\n"
				   "  base: {alias: [b]}\n  open: {egress: any}\n";
	char dir[] = "/tmp/fuzz-api-XXXXXX", all[sizeof(text) + sizeof(dir)];
	struct err e = ERR_INIT;

	if (mkdtemp(dir) == NULL)
		abort();
	(void)snprintf(all, sizeof(all), text, dir);
	if (config_load("fuzz", all, strlen(all), &config, &e) < 0 || daemon_open(&d, &config, &e) < 0)
		abort();
	/* its files are open and need no names */
	(void)nftw(dir, drop, 8, FTW_DEPTH | FTW_PHYS);
}

static struct box *put(const char *id, const char *tenant)
{
	struct box *b = box_add(&d.boxes, id, BOX_RUNNING);

	if (b == NULL)
		abort();
	(void)snprintf(b->tenant, sizeof(b->tenant), "%s", tenant);
	(void)snprintf(b->template, sizeof(b->template), "base");
	b->started_ms = 1700000000000;
	b->ends_ms = INT64_C(4000000000000);
	return b;
}

static void ask(const char *method, const char *target, const void *body, size_t n)
{
	struct request q = {.d = &d, .method = method, .begun = true, .whole = true, .who = {.tenant = "ours"}};
	unsigned status = 0;

	q.target = strdup(target);
	q.route = route_find(method, target, q.word, &q.v2, &status);
	if (q.route == NULL && status != 404 && status != 405)
		abort();
	buf_init(&q.body, REQUEST_BODY_MAX);
	if (n > 0 && buf_put(&q.body, body, n) < 0)
		q.too_big = true;
	if (q.route != NULL) {
		route_run(&q);
		if (q.answer == NULL || q.status < 200 || q.status > 599 || q.status == 500)
			abort();
	}
	life_forget(&d, &q);
	ask_json_forget(&d.asks, &q);
	if (q.answer != NULL)
		MHD_destroy_response(q.answer);
	buf_done(&q.body);
	json_decref(q.found);
	free(q.list);
	free(q.target);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	const uint8_t *end = memchr(p, '\n', n);
	size_t head = end != NULL ? (size_t)(end - p) : n;
	char *line = strndup((const char *)p, head), *target = strchr(line, ' ');
	struct box *ours, *theirs, was;

	if (d.config == NULL)
		begin();
	if (target != NULL && target[1] == '/') {
		*target++ = '\0';
		ours = put("i00000000000000000000", "ours");
		theirs = put("i11111111111111111111", "theirs");
		was = *theirs;
		ask(line, target, p + MIN(head + 1, n), n - MIN(head + 1, n));
		if (d.boxes.n != 2 || box_find(&d.boxes, ours->id) != ours || memcmp(&was, theirs, sizeof(was)) != 0 ||
		    strcmp(ours->tenant, "ours") != 0 || d.ops != NULL)
			abort();
		box_drop(&d.boxes, ours);
		box_drop(&d.boxes, theirs);
	}
	free(line);
	return 0;
}
