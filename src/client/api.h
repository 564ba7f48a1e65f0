#pragma once
/*
 * The control API (docs/api.md) and envd's calls as the commands use them. Whatever comes back is
 * checked: JSON is bounded and read strictly, ids and tokens have their form, words for people are
 * quoted.
 */
#include "client/http.h"

#include <jansson.h>

enum { BOX_ID_MAX = 64, BOX_TOKEN_MAX = 512, PORT_ENVD = 49983 };

struct client {
	struct place where;
	struct http http;
};

/* Find the daemon and the key; no request yet. */
int must_check client_open(struct client *c, struct err *e);
void client_done(struct client *c);

/*
 * One call of the control API. body: borrowed, NULL = none. *ret, if not NULL: the answer, owned;
 * -EPROTO when it is no JSON of that type (JSON_OBJECT, JSON_ARRAY). Fails for every status but
 * 2xx, with the daemon's words: -ENOENT 404, -EACCES 401 and 403, -EEXIST 409, -EOPNOTSUPP 501,
 * -EIO.
 */
int must_check api_call(struct client *c, const char *method, const char *path, json_t *body,
			json_type type, json_t **ret, struct err *e);
/* All pages of a list; query: "" or "&name=value...". *ret: an array. */
int must_check api_list(struct client *c, const char *query, json_t **ret, struct err *e);
/* Of those that have ended, the last to end first, until there are `most` or a page more. *ret_more: there are others. */
int must_check api_ended(struct client *c, const char *query, size_t most, json_t **ret, bool *ret_more, struct err *e);

/* How a call that has ended failed, or 0. id: the sandbox it was about, NULL = none. */
int must_check api_status(struct client *c, const struct http_call *call, const char *id,
			  struct err *e);

/* A sandbox that is there. */
struct box_ref {
	char id[BOX_ID_MAX + 1];
	char token[BOX_TOKEN_MAX + 1];	 /* for envd */
	char traffic[BOX_TOKEN_MAX + 1]; /* for other ports; "" = none is needed */
	char domain[256];		 /* "" = none was told */
	bool paused;
};
/*
 * The sandbox of this id, or of the only one that begins so. -ENOENT with the nearest id, -EINVAL
 * for one that several begin with. running: a paused one is an error that says so.
 */
int must_check api_find(struct client *c, const char *word, bool running, struct box_ref *ret,
			struct err *e);
/* The id alone. */
int must_check api_find_id(struct client *c, const char *word, char ret[BOX_ID_MAX + 1],
			   struct err *e);

/* No such sandbox: -ENOENT, with the nearest id in words. */
int must_check api_missing(struct client *c, const char *word, struct err *e);

/* Address a call to a port of a sandbox, as `user` (NULL = its default). */
int must_check api_to_box(struct http_call *call, const struct box_ref *b, unsigned port,
			  const char *user, struct err *e);
/* An envd call with one JSON answer ("process.Process/List"). body: the reference is taken. *ret
 * may be NULL. */
int must_check api_unary(struct client *c, const struct box_ref *b, const char *user,
			 const char *method, json_t *body, json_t **ret, struct err *e);

/* [a-z0-9]{1,64} */
bool api_is_id(const char *s);
/* Text of a field, NULL when it is none or has a NUL. */
const char *api_text(const json_t *o, const char *key);
