/* What happened to a sandbox, as brigd saw it: created, paused, ended. What its processes print is not kept. */
#include "api/request.h"

#include "parse/stamp.h"
#include "parse/uri.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { LINES_MAX = 1000 };

struct lines {
	json_t *list;
	const char *level, *search; /* "" = all */
	bool failed;
};

static void line(const struct store_line *l, void *arg)
{
	struct lines *ls = arg;
	char at[STAMP_SIZE];

	if ((ls->level[0] != '\0' && strcmp(ls->level, l->level) != 0) ||
	    (ls->search[0] != '\0' && strstr(l->message, ls->search) == NULL))
		return;
	(void)stamp_ms(l->at_ms, at);
	ls->failed |= json_array_append_new(ls->list, json_pack("{s:s,s:s,s:s,s:{}}", "timestamp", at, "message",
								l->message, "level", l->level, "fields")) != 0;
}

static bool word(struct request *q, const char *name, char *dst, size_t size)
{
	int r = uri_get(uri_query(q->target), name, dst, size);

	if (r == -ENOENT)
		dst[0] = '\0';
	else if (r < 0)
		reply_error(q, 400, "%s: malformed", name);
	return r >= 0 || r == -ENOENT;
}

void h_logs(struct request *q, json_t *body)
{
	char cursor[24], limit[8], direction[16], level[16], search[256];
	struct box *b = request_box(q);
	struct lines ls = {.level = level, .search = search};
	struct err e = ERR_INIT;
	bool back;
	int64_t from;
	unsigned long n;

	(void)body;
	if (b == NULL || !word(q, "cursor", cursor, sizeof(cursor)) || !word(q, "limit", limit, sizeof(limit)) ||
	    !word(q, "direction", direction, sizeof(direction)) || !word(q, "level", level, sizeof(level)) ||
	    !word(q, "search", search, sizeof(search)))
		return;
	back = strcmp(direction, "backward") == 0;
	from = cursor[0] != '\0' ? strtoll(cursor, NULL, 10) : back ? INT64_MAX : 0;
	n = limit[0] != '\0' ? strtoul(limit, NULL, 10) : LINES_MAX;
	if (n > LINES_MAX)
		n = LINES_MAX;
	ls.list = json_array();
	if (ls.list == NULL || store_log_lines(q->d->store, b->id, from, back, (uint32_t)n, line, &ls, &e) < 0 ||
	    ls.failed) {
		json_decref(ls.list);
		reply_error(q, 500, "%s", e.msg);
		return;
	}
	reply_json(q, 200, json_pack("{s:o}", "logs", ls.list));
}
