#pragma once
/*
 * HTTP/1.1 messages (RFC 9110, RFC 9112), read strictly: what two programs could read in two ways
 * is refused, not repaired. Whoever passes a message on writes it anew (http_put_field), so nothing
 * of the sender's spelling remains. Pure; both sides are hostile. Every view points into the bytes
 * given.
 */
#include "base/buf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/types.h>

enum {
	HTTP_HEAD_MAX = 64 * 1024,
	HTTP_FIELDS_MAX = 100,
	HTTP_METHOD_MAX = 23,
	HTTP_LINE_MAX = 256,
	HTTP_TRAILER_MAX = 8192
};

struct http_text {
	const char *p;
	size_t n;
};
struct http_field {
	struct http_text name, value; /* a token; without spaces around it */
};

enum http_body {
	HTTP_NONE,
	HTTP_LENGTH,
	HTTP_CHUNKED,
	HTTP_TO_END /* of the connection; responses only */
};

struct http_head {
	uint8_t minor;		    /* HTTP/1.minor: 0 or 1 */
	struct http_text method;    /* request: upper case; never CONNECT */
	struct http_text target;    /* request: begins with '/', or is "*" of OPTIONS */
	struct http_text authority; /* request: of an absolute target; n 0 = none was there */
	bool secure;		    /* request: the absolute target said https */
	uint16_t status;	    /* response: 100..599 */
	struct http_text reason; /* response: words, possibly none */
	struct http_text host;	    /* request: the one Host field */
	enum http_body body;	    /* response: by its fields alone, see http_response_body */
	uint64_t length;	    /* of HTTP_LENGTH; at most INT64_MAX */
	bool close;		    /* the sender ends the connection after this message */
	bool expect_continue;
	struct http_text upgrade; /* the one protocol asked for; n 0 = none */
	uint32_t fields_n;
	struct http_field field[HTTP_FIELDS_MAX];
};

/*
 * Parse the head at the front of p. Its size with the empty line, 0 = more is needed, -E2BIG = over
 * HTTP_HEAD_MAX or HTTP_FIELDS_MAX, -EBADMSG with what is wrong in *why (static). What is wrong in
 * the first n bytes stays wrong with more.
 */
ssize_t must_check http_parse(const uint8_t *p, size_t n, bool request, struct http_head *ret,
			      const char **why);
/* How the body of this response ends (RFC 9112 6.3), given that the request was HEAD or not. */
enum http_body http_response_body(const struct http_head *h, bool to_head);
/* The value of the first field of this name (lower case), NULL p = none. */
struct http_text http_find(const struct http_head *h, const char *name);
/* Whether the name, in any case, is this one (lower case). */
bool http_is(struct http_text t, const char *lower);
static inline struct http_text http_text(const char *s) { return (struct http_text){s, strlen(s)}; }
/* Bytes at the front of p that can be of a token (RFC 9110 5.6.2). */
size_t http_token(const char *p, size_t n);
/* Whether a comma-separated list (of Connection and the like) has this word, in any case. */
bool http_list_has(struct http_text list, struct http_text word);
/* A field that is between two neighbours only and must not be passed on (RFC 9110 7.6.1): the fixed
 * ones, in any case; and with those that Connection names. */
bool http_hop(struct http_text name);
bool http_is_hop(const struct http_head *h, struct http_text name);
/* Write "name: value CR LF". 0 or -ENOBUFS, -ENOMEM. */
int must_check http_put_field(struct buf *b, struct http_text name, struct http_text value);
