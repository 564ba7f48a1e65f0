#include "client/api.h"

#include "base/base64.h"
#include "base/quote.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Words of the daemon are foreign: they are quoted before anybody sees them. */

int client_open(struct client *c, struct err *e)
{
	int r = place_find(&c->where, e);

	return r < 0 ? r : http_open(&c->http, &c->where, e);
}

void client_done(struct client *c)
{
	http_close(&c->http);
	place_done(&c->where);
}

const char *api_text(const json_t *o, const char *key)
{
	const json_t *v = json_object_get(o, key);
	const char *s = json_string_value(v);

	return s != NULL && strlen(s) == json_string_length(v) ? s : NULL;
}

bool api_is_id(const char *s)
{
	size_t n = strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789");

	return n > 0 && n <= BOX_ID_MAX && s[n] == '\0';
}

/* ---- failures ---- */

static int errno_of(unsigned status)
{
	switch (status) {
	case 401:
	case 403:
		return EACCES;
	case 404:
		return ENOENT;
	case 409:
		return EEXIST;
	case 501:
		return EOPNOTSUPP;
	default:
		return EIO;
	}
}

static enum err_kind kind_of(unsigned status)
{
	for (int k = ERR_NONE + 1; k < ERR_KIND_COUNT; k++)
		if (err_kind_http((enum err_kind)k) == (int)status)
			return (enum err_kind)k;
	return status == 401 ? ERR_DENIED : ERR_LOST;
}

static int no_key(const struct client *c, struct err *e)
{
	return err_set(e, ERR_DENIED, EACCES,
		       "no key for the daemon at %s: put one into BRIG_API_KEY or a file for "
		       "--key-file ('brig key create' makes one)",
		       c->where.shown);
}

int api_status(struct client *c, const struct http_call *call, const char *id, struct err *e)
{
	json_t *o = NULL;
	char q[QUOTE_MAX];
	const char *words;
	int r;

	if (call->code != CURLE_OK)
		return http_failed(&c->http, call, e);
	if (call->status >= 200 && call->status < 300)
		return 0;
	o = json_loadb((const char *)buf_head(&call->answer), call->answer.len, 0, NULL);
	words = api_text(o, "message");
	(void)quote_bare(words != NULL ? words : "it gives no reason", q);
	if (call->status == 401 && id == NULL)
		r = err_set(e, ERR_DENIED, EACCES,
			    "the daemon at %s does not accept this key: %s ('brig key create' "
			    "makes one that it does)",
			    c->where.shown, q);
	else if (call->status == 502 && id != NULL)
		r = err_set(e, ERR_LOST, EPIPE,
			    "sandbox %s does not answer: it ended, or was paused, meanwhile", id);
	else
		r = err_set(e, kind_of(call->status), errno_of(call->status), "%s (status %u)", q,
			    call->status);
	json_decref(o);
	return r;
}

/* ---- the control API ---- */

static int read_json(const struct client *c, const struct http_call *call, json_type type,
		     json_t **ret, struct err *e)
{
	json_error_t je = {.line = 0};
	json_t *o = json_loadb((const char *)buf_head(&call->answer), call->answer.len,
			       JSON_REJECT_DUPLICATES, &je);

	if (o == NULL || json_typeof(o) != type) {
		json_decref(o);
		return err_set(
		    e, ERR_LOST, EPROTO,
		    "what answers at %s is no brigd: its answer is not the JSON that was expected",
		    c->where.shown);
	}
	*ret = o;
	return 0;
}

enum { PAGE_TOKEN_SIZE = sizeof(((struct http_call *)NULL)->next) };

/* next: PAGE_TOKEN_SIZE bytes for the token of the next page, or NULL. */
static int call_once(struct client *c, const char *method, const char *path, json_t *body,
		     json_type type, json_t **ret, char *next, struct err *e)
{
	char *text = body != NULL ? json_dumps(body, JSON_COMPACT) : NULL;
	struct http_call call = {.method = method,
				 .path = path,
				 .body = text,
				 .body_n = text != NULL ? strlen(text) : 0,
				 .type = text != NULL ? "application/json" : NULL};
	int r;

	if (body != NULL && text == NULL)
		return err_no_memory(e);
	if (c->where.key == NULL)
		r = no_key(c, e);
	else if (http_field(&call, "X-API-KEY", c->where.key) < 0)
		r = err_no_memory(e);
	else
		r = http_run(&c->http, &call, e);
	if (r == 0)
		r = api_status(c, &call, NULL, e);
	if (r == 0 && ret != NULL)
		r = read_json(c, &call, type, ret, e);
	if (next != NULL)
		(void)snprintf(next, sizeof(call.next), "%s", call.next);
	http_done(&c->http, &call);
	free(text);
	return r;
}

int api_call(struct client *c, const char *method, const char *path, json_t *body, json_type type,
	     json_t **ret, struct err *e)
{
	return call_once(c, method, path, body, type, ret, NULL, e);
}

static int get_page(struct client *c, const char *start, const char *query, char next[PAGE_TOKEN_SIZE], json_t **ret, struct err *e)
{
	struct buf path = {.max = 64 * 1024};
	int r = buf_put(&path, start, strlen(start));

	if (r == 0)
		r = buf_put(&path, query, strlen(query));
	if (r == 0 && next[0] != '\0')
		r = buf_put(&path, "&nextToken=", 11);
	if (r == 0)
		r = http_put_encoded(&path, next);
	if (r == 0)
		r = buf_put(&path, "", 1);
	if (r == 0)
		r = call_once(c, "GET", (const char *)buf_head(&path), NULL, JSON_ARRAY, ret, next, e);
	buf_done(&path);
	return r;
}

/* Pages until there are no more, or most rows. *ret_more: some were left. */
static int get_pages(struct client *c, const char *start, const char *query, size_t most, json_t **ret, bool *ret_more, struct err *e)
{
	enum { PAGES_MAX = 128 };
	json_t *all = json_array();
	char next[PAGE_TOKEN_SIZE] = "";
	int r = all == NULL ? err_no_memory(e) : 0, pages = 0;

	do {
		json_t *page = NULL;

		if (r == 0)
			r = get_page(c, start, query, next, &page, e);
		if (r == 0 && json_array_extend(all, page) < 0)
			r = err_no_memory(e);
		json_decref(page);
	} while (r == 0 && next[0] != '\0' && json_array_size(all) < most && ++pages < PAGES_MAX);
	if (r < 0) {
		json_decref(all);
		return r;
	}
	*ret_more = next[0] != '\0';
	*ret = all;
	return 0;
}

int api_list(struct client *c, const char *query, json_t **ret, struct err *e)
{
	json_t *all = NULL;
	bool more = false;
	int r = get_pages(c, "/v2/sandboxes?limit=100", query, SIZE_MAX, &all, &more, e);

	if (r == 0 && more)
		r = err_set(e, ERR_LOST, EPROTO, "the daemon's list has no end");
	if (r < 0)
		json_decref(all);
	else
		*ret = all;
	return r;
}

int api_ended(struct client *c, const char *query, size_t most, json_t **ret, bool *ret_more, struct err *e)
{
	return get_pages(c, "/v2/sandboxes/ended?limit=1000", query, most, ret, ret_more, e);
}

/* ---- a sandbox's port ---- */

static int basic_auth(struct http_call *call, const char *user)
{
	char pair[256], value[512];
	int r = -EINVAL;

	if ((size_t)snprintf(pair, sizeof(pair), "%s:", user) < sizeof(pair)) {
		size_t n = strlen(pair);

		memcpy(value, "Basic ", 6);
		base64_put(value + 6, pair, n);
		value[6 + base64_size(n)] = '\0';
		r = http_field(call, "Authorization", value);
	}
	return r;
}

int api_to_box(struct http_call *call, const struct box_ref *b, unsigned port, const char *user,
	       struct err *e)
{
	char text[16];
	int r;

	(void)snprintf(text, sizeof(text), "%u", port);
	r = http_field(call, "E2b-Sandbox-Id", b->id);
	if (r == 0)
		r = http_field(call, "E2b-Sandbox-Port", text);
	if (r == 0 && port == PORT_ENVD)
		r = http_field(call, "X-Access-Token", b->token);
	else if (r == 0 && b->traffic[0] != '\0')
		r = http_field(call, "E2b-Traffic-Access-Token", b->traffic);
	if (r == 0 && user != NULL)
		r = basic_auth(call, user);
	return r == -EINVAL ? err_set(e, ERR_INVALID, EINVAL, "--user: at most 200 bytes")
	       : r < 0	    ? err_no_memory(e)
			    : 0;
}

int api_unary(struct client *c, const struct box_ref *b, const char *user, const char *method,
	      json_t *body, json_t **ret, struct err *e)
{
	char *text = body != NULL ? json_dumps(body, JSON_COMPACT) : NULL;
	char path[128];
	struct http_call call = {
	    .method = "POST", .path = path, .body = text, .type = "application/json"};
	int r = text == NULL ? err_no_memory(e) : 0;

	json_decref(body);
	(void)snprintf(path, sizeof(path), "/%s", method);
	if (r == 0) {
		call.body_n = strlen(text);
		r = api_to_box(&call, b, PORT_ENVD, user, e);
	}
	if (r == 0)
		r = http_run(&c->http, &call, e);
	if (r == 0)
		r = api_status(c, &call, b->id, e);
	if (r == 0 && ret != NULL)
		r = read_json(c, &call, JSON_OBJECT, ret, e);
	http_done(&c->http, &call);
	free(text);
	return r;
}
