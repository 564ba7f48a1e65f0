/*
 * Which row of routes.def serves a path, and what is done before its handler runs: the method, the key, its scope, the
 * body. A key is asked for before anything is said of a path's sandbox.
 */
#include "api/request.h"

#include "base/num.h"
#include "parse/uri.h"

#include <errno.h>
#include <string.h>

static const struct route rows[] = {
#define ROUTE(method, path, scope, body, handler) {method, path, scope, body, handler},
#include "api/routes.def"
#undef ROUTE
};

/* Whether the path is the pattern's; what stands for {id} is decoded into id. */
static bool matches(const char *pattern, const char *p, size_t n, char id[WHERE_ID_MAX + 1])
{
	const char *end = p + n;

	for (; *pattern != '\0'; pattern++) {
		if (*pattern == '*')
			return true;
		if (*pattern == '{') {
			size_t len = MIN(strcspn(p, "/"), (size_t)(end - p));

			if (len == 0)
				return false;
			if (uri_decode(p, len, false, id, WHERE_ID_MAX + 1) < 0)
				id[0] = '\0'; /* no sandbox's */
			p += len;
			pattern += strlen("{id");
		} else if (p == end || *p++ != *pattern) {
			return false;
		}
	}
	return p == end;
}

const struct route *route_find(const char *method, const char *target, char id[WHERE_ID_MAX + 1], bool *ret_v2,
			       unsigned *ret_status)
{
	size_t n = uri_path_len(target);

	*ret_v2 = n > 4 && strncmp(target, "/v2/", 4) == 0;
	if (*ret_v2) {
		target += 3;
		n -= 3;
	}
	*ret_status = 404;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		id[0] = '\0';
		if (!matches(rows[i].path, target, n, id))
			continue;
		if (strcmp(rows[i].method, method) == 0 || rows[i].method[0] == '*')
			return &rows[i];
		*ret_status = 405;
	}
	return NULL;
}

void route_run(struct request *q)
{
	json_t *body = NULL;
	json_error_t je = {.line = 0};

	if (q->too_big) {
		reply_error(q, 413, "the body is larger than %d bytes", REQUEST_BODY_MAX);
		return;
	}
	if (q->route->body) {
		if (q->body.len == 0)
			body = json_object();
		else
			body = json_loadb((const char *)buf_head(&q->body), q->body.len, JSON_REJECT_DUPLICATES, &je);
		buf_done(&q->body);
		if (!json_is_object(body)) {
			if (body == NULL)
				reply_error(q, 400, "the body is not JSON: line %d: %s", je.line, je.text);
			else
				reply_error(q, 400, "the body is not a JSON object");
			json_decref(body);
			return;
		}
	}
	q->route->handle(q, body);
	json_decref(body);
}
