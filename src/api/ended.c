/*
 * The list of sandboxes that have ended, as long as the store has them: brig's own, beside the control API's lists. A page is of
 * `limit` ends at the most, whatever of them is wanted, so that no request takes longer than that.
 */
#include "api/request.h"

#include "parse/stamp.h"
#include "parse/uri.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { ENDED_MAX = 1000 };

struct rows {
	json_t *list;
	const char *template; /* "" = any */
	unsigned long seen;
	int64_t last_ms;
	char last_id[BOX_ID_SIZE];
	bool failed;
};

static json_t *end_of(const struct store_end *x)
{
	json_t *result = x->result != NULL ? json_loads(x->result, JSON_REJECT_DUPLICATES, NULL) : NULL;
	char started[STAMP_SIZE], ended[STAMP_SIZE];

	return json_pack("{s:s,s:s,s:s,s:s,s:s,s:s,s:o*}", "sandboxID", x->id, "templateID", x->template, "state", "ended", "how",
			 x->how, "startedAt", stamp_ms(x->started_ms, started), "endedAt", stamp_ms(x->ended_ms, ended), "result",
			 result);
}

static void row(const struct store_end *x, void *arg)
{
	struct rows *rs = arg;

	if (rs->template[0] == '\0' || strcmp(rs->template, x->template) == 0)
		rs->failed |= json_array_append_new(rs->list, end_of(x)) < 0;
	rs->seen++;
	rs->last_ms = x->ended_ms;
	(void)snprintf(rs->last_id, sizeof(rs->last_id), "%s", x->id);
}

void h_ended(struct request *q, json_t *body)
{
	char template[BOX_WORD_SIZE] = "";
	struct rows rs = {.template = template};
	struct err e = ERR_INIT;
	struct page p;
	int r = uri_get(uri_query(q->target), "template", template, sizeof(template));

	(void)body;
	if (r < 0 && r != -ENOENT) {
		reply_error(q, 400, "template: malformed");
		return;
	}
	if (!page_read(q, ENDED_MAX, &p))
		return;
	if (p.from_id[0] == '\0')
		p.from_ms = INT64_MAX;
	rs.list = json_array();
	if (rs.list == NULL ||
	    store_ends(q->d->store, q->who.tenant, p.from_ms, p.from_id, (uint32_t)p.limit, row, &rs, &e) < 0 || rs.failed) {
		json_decref(rs.list);
		reply_error(q, 500, "%s", e.msg);
		return;
	}
	reply_json(q, 200, rs.list);
	if (rs.seen == p.limit) /* there may be more */
		page_next(q, rs.last_ms, rs.last_id);
}
