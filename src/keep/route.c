#include "keep/route.h"

#include "base/num.h"
#include "wire/envelope.h"
#include "keep/priv.h"
#include "parse/uri.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/*
 * Heads and bodies come from clients, through brigd: of any content. A body that is JSON is
 * gathered whole, BODY_MAX bytes at most, and read strictly; its values are the handlers' to check.
 */

static const struct route routes[] = {
#define ROUTE(method, path, shape, user, fn) {method, path, shape, user, fn},
#include "keep/routes.def"
#undef ROUTE
};

static bool path_is(const char *row, const char *path, size_t n)
{
	size_t m = strlen(row);

	if (m > 0 && row[m - 1] == '*')
		return n >= m - 1 && strncmp(row, path, m - 1) == 0;
	return n == m && strncmp(row, path, n) == 0;
}

const char *route_rest(const struct talk *t) { return t->head.target + strlen(t->route->path) - 1; }

/* ---- bodies ---- */

struct gather {
	struct buf body;
	json_t *req; /* owned */
};

static void gather_free(struct talk *t)
{
	struct gather *g = t->gather;

	if (g != NULL) {
		buf_done(&g->body);
		json_decref(g->req);
	}
	free(g);
	t->gather = NULL;
}

void route_done(struct talk *t)
{
	users_stop(t);
	gather_free(t);
	free(t->user);
	t->user = NULL;
}

static void serve(struct talk *t)
{
	struct gather *g = t->gather;

	t->route->serve(t, g != NULL ? g->req : NULL);
	gather_free(t);
	talk_resume(t);
}

static void serve_as(struct talk *t)
{
	const struct gather *g = t->gather;
	const char *named = g != NULL && t->route->shape == SHAPE_JSON
				? json_string_value(json_object_get(g->req, "username"))
				: NULL;

	if (t->route->user == AS_USER)
		users_find(t, named, serve);
	else
		serve(t);
}

static size_t on_data(struct talk *t, const void *p, size_t n)
{
	struct gather *g = t->gather;

	if (buf_put(&g->body, p, n) == 0)
		return n;
	if (t->route->shape == SHAPE_JSON)
		fail_status(t, 413, "the request has more than %d bytes", BODY_MAX);
	else
		fail(t, FAIL_RESOURCE_EXHAUSTED, "the request has more than %d bytes", BODY_MAX);
	return n;
}

/* The bytes that are JSON: NULL after a failure, which was told. */
static const char *content(struct talk *t, const struct buf *b, size_t *ret_n)
{
	struct envelope e;
	int used;

	*ret_n = b->len;
	if (t->route->shape != SHAPE_STREAM)
		return b->len > 0 ? (const char *)buf_head(b) : "";
	used = envelope_next(buf_head(b), b->len, BODY_MAX, &e);
	if (used <= 0 || (size_t)used != b->len || e.flags != 0) {
		fail(t, FAIL_INVALID_ARGUMENT, "the request is not one envelope");
		return NULL;
	}
	*ret_n = e.n;
	return e.n > 0 ? (const char *)e.p : "";
}

static void on_end(struct talk *t)
{
	struct gather *g = t->gather;
	size_t n = 0;
	const char *p = content(t, &g->body, &n);

	if (p == NULL)
		return;
	g->req = n == 0 && t->route->shape != SHAPE_STREAM
		     ? json_object()
		     : json_loadb(p, n, JSON_REJECT_DUPLICATES, NULL);
	buf_done(&g->body);
	t->ops = NULL;
	if (json_is_object(g->req))
		serve_as(t);
	else
		fail(t, FAIL_INVALID_ARGUMENT, "the request is no JSON object");
}

static const struct talk_ops gather_ops = {.data = on_data, .end = on_end};

static bool type_ok(struct talk *t, const char *wanted)
{
	const char *type = call_find(&t->head, "content-type");
	const char *coding =
	    call_find(&t->head, t->route->shape >= SHAPE_STREAM ? "connect-content-encoding"
								: "content-encoding");
	size_t n = strlen(wanted);

	if (type == NULL || strncmp(type, wanted, n) != 0 ||
	    (type[n] != '\0' && type[n] != ';' && type[n] != ' ')) {
		talk_status(t, 415);
		return false;
	}
	if (coding != NULL && strcmp(coding, "identity") != 0) {
		fail(t, FAIL_UNIMPLEMENTED, "requests are read without compression only");
		return false;
	}
	return true;
}

static void begin(struct talk *t)
{
	struct gather *g;

	if (t->route->shape >= SHAPE_STREAM
		? !type_ok(t, "application/connect+json")
		: t->route->shape == SHAPE_UNARY && !type_ok(t, "application/json"))
		return;
	if (t->route->shape == SHAPE_PLAIN || t->route->shape == SHAPE_FLOW) {
		t->stalled = true; /* the body is for the one who serves */
		serve_as(t);
		return;
	}
	g = calloc(1, sizeof(*g));
	if (g == NULL) {
		talk_cut(t);
		return;
	}
	buf_init(&g->body, BODY_MAX + ENVELOPE_HEADER);
	t->gather = g;
	t->ops = &gather_ops;
}

/* ---- heads ---- */

static bool below(const struct talk *t, const char *part)
{
	return strncmp(t->head.target, part, strlen(part)) == 0;
}

bool route_is_client(const struct talk *t)
{
	return t->head.target != NULL && (below(t, "/envd/") || below(t, "/code/"));
}

/* What a browser asks before it asks. */
static void preflight(struct talk *t)
{
	const char *wanted = call_find(&t->head, "access-control-request-headers");
	const struct call_field f[] = {
	    {"access-control-allow-methods", "HEAD, GET, POST, PUT, PATCH, DELETE"},
	    {"access-control-max-age", "7200"},
	    {"access-control-allow-headers", wanted != NULL ? wanted : "*"},
	};

	talk_reply(t, 204, f, 3);
	talk_end(t);
}

void route_talk(struct talk *t)
{
	size_t n = uri_path_len(t->head.target);
	bool known = false;

	if (route_is_client(t) && strcmp(t->head.method, "OPTIONS") == 0) {
		preflight(t);
		return;
	}
	if (t->k->paused && !below(t, "/control/")) {
		fail_status(t, 502, "The sandbox is paused");
		return;
	}
	for (size_t i = 0; i < ARRAY_LEN(routes); i++) {
		if (!path_is(routes[i].path, t->head.target, n))
			continue;
		known = true;
		if (strcmp(routes[i].method, "*") != 0 &&
		    strcmp(routes[i].method, t->head.method) != 0)
			continue;
		t->route = &routes[i];
		begin(t);
		return;
	}
	fail_status(t, known ? 405 : 404,
		    known ? "not with this method" : "nothing is served here");
}
