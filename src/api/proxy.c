/*
 * Traffic of sandboxes. brigd decides who may and to which keeper it goes; of what is said it reads the head only. Both sides
 * are held for hostile: the client's head goes through wire/call.h's checks on its way in, the keeper's on its way out.
 *
 * A port other than envd's is open to whoever knows the sandbox's name, as with the service this API comes from, unless the
 * sandbox was made with private traffic.
 */
#include "api/server_priv.h"

#include "api/sign.h"
#include "base/cleanup.h"
#include "base/num.h"
#include "parse/http.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char not_found[] = "The sandbox was not found";
static const char no_token[] =
    "unauthorized access, please provide a valid access token or method signing if supported";

/* ---- fields ---- */

static bool ours(const char *name)
{
	static const char *const names[] = {"host", "x-api-key", "x-access-token", "e2b-traffic-access-token", "expect"};

	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (strcasecmp(names[i], name) == 0)
			return true;
	return false;
}

struct fields {
	struct call_field f[CALL_FIELDS_MAX];
	uint32_t n;
	struct buf names; /* lower-case copies, which f points into; never grows */
	bool upgrade;	  /* the field of this name goes on */
	bool bad;
};

static enum MHD_Result add_field(void *cls, enum MHD_ValueKind kind, const char *name, const char *value)
{
	struct fields *h = cls;
	size_t n = strlen(name) + 1;
	char *copy;

	(void)kind;
	if ((http_hop(http_text(name)) && !(h->upgrade && strcasecmp(name, "upgrade") == 0)) || ours(name))
		return MHD_YES;
	copy = h->n < CALL_FIELDS_MAX ? (char *)buf_reserve(&h->names, n) : NULL;
	if (copy == NULL || h->names.len + n > h->names.cap) {
		h->bad = true;
		return MHD_NO;
	}
	for (size_t i = 0; i < n; i++)
		copy[i] = (char)(name[i] >= 'A' && name[i] <= 'Z' ? name[i] + 32 : name[i]);
	buf_commit(&h->names, n);
	h->f[h->n++] = (struct call_field){.name = copy, .value = value != NULL ? value : ""};
	return MHD_YES;
}

/* ---- the keeper's answer ---- */

/* MHD's buffer for one response; a chunked one is put together in the connection's memory and never looks at it. */
enum { BLOCK = 64 * 1024 };

static void answer_head(struct request *q)
{
	struct MHD_Response *r;
	struct call_head h;
	const char *length;
	uint64_t size = MHD_SIZE_UNKNOWN;
	bool none, switched;

	if (ask_answer(q->ask, &h) < 0 || (h.status < 200 && !(q->upgrade && h.status == 101))) {
		reply_box_error(q, 502, q->where.id, 0, "The sandbox gave no answer that can be understood");
		return;
	}
	length = call_find(&h, "content-length");
	none = h.status == 204 || h.status == 304;
	if (length != NULL && length[0] != '\0' && strlen(length) < 19 && strspn(length, "0123456789") == strlen(length))
		size = strtoull(length, NULL, 10);
	switched = h.status == 101;
	r = switched ? tunnel_response(q)
	    : none   ? MHD_create_response_from_buffer(0, NULL, MHD_RESPMEM_PERSISTENT)
		     : MHD_create_response_from_callback(size, size == MHD_SIZE_UNKNOWN ? 1 : BLOCK, answer_read,
							 q, NULL);
	if (r == NULL) {
		q->cut = true;
		request_wake(q);
		return;
	}
	for (uint32_t i = 0; i < h.fields_n; i++)
		if ((!http_hop(http_text(h.field[i].name)) && strcmp(h.field[i].name, "content-length") != 0) ||
		    (switched && strcmp(h.field[i].name, "upgrade") == 0))
			(void)MHD_add_response_header(r, h.field[i].name, h.field[i].value);
	if (q->cors)
		(void)MHD_add_response_header(r, "Access-Control-Allow-Origin", "*");
	ask_body_begin(q->ask);
	q->answer = r;
	q->status = h.status;
}

static void notify(struct ask *a, void *owner)
{
	struct request *q = owner;

	if (q->tunnel != NULL) {
		tunnel_step(q);
		return;
	}
	if (q->answer == NULL && !q->queued) {
		enum ask_phase phase = ask_look(a);

		if (phase == ASK_HEAD)
			answer_head(q);
		else if (phase == ASK_CUT)
			reply_box_error(q, 502, q->where.id, 0, not_found);
		else if (q->whole)
			return; /* nothing to go on with */
	}
	request_wake(q);
}

/* ---- deciding ---- */

static void connect_keeper(struct request *q, struct box *b)
{
	enum { ROOM = 16 * 1024 };
	_cleanup_free_ char *target = NULL, *names = malloc(ROOM);
	char path[128], prefix[16];
	struct fields *h = calloc(1, sizeof(*h));
	int r = daemon_socket(q->d, b, path, sizeof(path));

	if (h == NULL || names == NULL) {
		free(h);
		q->cut = true;
		return;
	}
	h->upgrade = q->upgrade = q->where.port != PORT_ENVD && q->where.port != PORT_CODE && tunnel_asked(q);
	h->names = (struct buf){.data = (uint8_t *)steal_ptr(&names), .cap = ROOM, .max = ROOM};
	if (q->where.port == PORT_ENVD)
		(void)snprintf(prefix, sizeof(prefix), "/envd");
	else if (q->where.port == PORT_CODE)
		(void)snprintf(prefix, sizeof(prefix), "/code");
	else
		(void)snprintf(prefix, sizeof(prefix), "/port/%u", q->where.port);
	if (asprintf(&target, "%s%s", prefix, q->target) < 0)
		target = NULL;
	(void)MHD_get_connection_values(q->conn, MHD_HEADER_KIND, add_field, h);
	if (r == 0)
		r = ask_open(&q->d->loop, path, notify, q, &q->ask);
	if (r == 0 && (target == NULL || h->bad))
		r = -EMSGSIZE;
	if (r == 0)
		begun_add(q);
	if (r == 0)
		r = ask_request(q->ask, q->method, target, h->f, h->n);
	buf_done(&h->names);
	free(h);
	if (r == 0)
		return;
	ask_drop(q->ask);
	q->ask = NULL;
	if (r == -EINVAL || r == -EMSGSIZE)
		reply_error(q, r == -EINVAL ? 400 : 431, "the request's head cannot be passed on");
	else if (r == -EAGAIN)
		reply_box_error(q, 503, q->where.id, 0, "The sandbox cannot be reached at the moment");
	else
		reply_box_error(q, 502, q->where.id, 0, not_found);
}

static void woken(void *owner, struct box *b, unsigned status, const char *why)
{
	struct request *q = owner;

	(void)why;
	q->resuming = false;
	if (status == 0 && b != NULL)
		connect_keeper(q, b);
	else
		reply_box_error(q, 502, q->where.id, 0, not_found);
	if (q->ask != NULL && q->whole && !q->upgrade)
		proxy_body_end(q);
	request_wake(q);
}

/* Of /files only: 0 = let through, else the words of the 401. */
static const char *signature(struct request *q, const char *token)
{
	const char *verb = strcmp(q->method, "GET") == 0 || strcmp(q->method, "HEAD") == 0 ? "read" : "write";
	_cleanup_free_ struct sign_query *s = malloc(sizeof(*s));

	if (s == NULL)
		return "out of memory";
	sign_read(q->target, s);
	if (!s->has_signature)
		return "missing signature query parameter";
	if (!sign_fits(s, verb, token))
		return "invalid signature";
	return sign_over(s, daemon_now_ms() / 1000) ? "signature is already expired" : NULL;
}

static bool path_is(const struct request *q, const char *path)
{
	size_t n = strcspn(q->target, "?");

	return n == strlen(path) && memcmp(q->target, path, n) == 0;
}

/* Whether the client may; else the answer is set. */
static bool admitted(struct request *q, const struct box *b)
{
	char token[SEAL_TOKEN_SIZE];
	const char *given, *why = no_token;

	if (q->where.port != PORT_ENVD) {
		if (!b->private_traffic)
			return true;
		seal_token(&q->d->seal, "traffic", b->id, token);
		given = request_field(q, "E2b-Traffic-Access-Token");
		if (given != NULL && seal_same(given, token))
			return true;
		q->d->stats.auth_failed++;
		reply_box_error(q, 403, b->id, 0,
				given == NULL ? "Sandbox is secured with traffic access token. Token header "
						"'e2b-traffic-access-token' is missing"
					      : "Sandbox is secured with traffic access token. Provided token in header "
						"'e2b-traffic-access-token' is invalid");
		return false;
	}
	if (where_internal(q->target)) {
		reply_error(q, 404, "not found");
		return false;
	}
	seal_token(&q->d->seal, "access", b->id, token);
	given = request_field(q, "X-Access-Token");
	if (path_is(q, "/health") || (given != NULL && seal_same(given, token)))
		return true;
	if (path_is(q, "/files") && given == NULL)
		why = signature(q, token);
	if (why == NULL)
		return true;
	q->d->stats.auth_failed++;
	reply_error(q, 401, "%s", why);
	if (q->cors)
		reply_field(q, "Access-Control-Allow-Origin", "*");
	return false;
}

/* A file's URL without any name in it: the sandbox whose token made its signature. */
static struct box *signed_box(struct request *q)
{
	const char *verb = strcmp(q->method, "POST") == 0 ? "write" : "read";
	_cleanup_free_ struct sign_query *s = malloc(sizeof(*s));
	char token[SEAL_TOKEN_SIZE];
	struct sign_search search;
	struct box *b;

	if (s == NULL)
		return NULL;
	sign_read(q->target, s);
	if (!sign_search_begin(&search, s, verb))
		return NULL;
	for (b = box_next(&q->d->boxes, NULL); b != NULL; b = box_next(&q->d->boxes, b)) {
		if (b->state != BOX_RUNNING && b->state != BOX_PAUSED)
			continue;
		seal_token(&q->d->seal, "access", b->id, token);
		if (sign_search_fits(&search, token))
			break;
	}
	return b;
}

static bool preflight(struct request *q)
{
	if (!q->cors || strcmp(q->method, "OPTIONS") != 0 ||
	    request_field(q, "Access-Control-Request-Method") == NULL)
		return false;
	reply_status(q, 204);
	reply_field(q, "Access-Control-Allow-Origin", "*");
	reply_field(q, "Access-Control-Allow-Methods", "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS");
	reply_field(q, "Access-Control-Allow-Headers", "*, Authorization");
	reply_field(q, "Access-Control-Max-Age", "7200");
	return true;
}

static void count(struct request *q)
{
	q->d->stats.execs += (q->where.port == PORT_ENVD && path_is(q, "/process.Process/Start")) ||
			     (q->where.port == PORT_CODE && path_is(q, "/execute"));
}

void proxy_begin(struct request *q)
{
	struct box *b;

	if (q->where.kind == WHERE_SIGNED) {
		b = signed_box(q);
		if (b == NULL) {
			q->unknown = true;
			q->d->stats.auth_failed++;
			reply_error(q, 401, "invalid signature");
			return;
		}
		memcpy(q->where.id, b->id, sizeof(b->id));
		q->where.port = PORT_ENVD;
	} else {
		b = box_find(&q->d->boxes, q->where.id);
	}
	q->cors = q->where.port == PORT_ENVD || q->where.port == PORT_CODE;
	if (preflight(q))
		return;
	if (b != NULL && (b->killing || (b->state != BOX_RUNNING && (b->state != BOX_PAUSED || !b->auto_resume))))
		b = NULL;
	if (b == NULL) {
		q->unknown = true;
		reply_box_error(q, 502, q->where.id, 0, not_found);
		return;
	}
	if (!admitted(q, b)) {
		q->unknown = true;
		return;
	}
	count(q);
	if (b->state == BOX_PAUSED) {
		q->resuming = true;
		life_resume(q->d, b, q->d->config->default_timeout_ms, woken, q);
		return;
	}
	connect_keeper(q, b);
}

size_t proxy_body(struct request *q, const void *p, size_t n)
{
	ssize_t took;

	if (q->answer != NULL || q->queued) { /* answered before the body's end: the rest is for nobody */
		q->discarded += n;
		return n;
	}
	took = ask_put(q->ask, p, n);
	if (took < 0) {
		q->cut = q->gone = true;
		return n;
	}
	q->d->stats.bytes_in += (uint64_t)took;
	return (size_t)took;
}

void proxy_body_end(struct request *q)
{
	if (ask_put_end(q->ask) < 0)
		q->cut = true;
}
