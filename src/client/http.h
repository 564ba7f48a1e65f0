#pragma once
/*
 * HTTP requests to the daemon, by libcurl: several at once over kept connections, in the caller's
 * loop. What comes back is hostile: an answer that is kept has a maximum, and one that streams goes
 * to a function that may make it wait.
 */
#include "base/buf.h"
#include "client/place.h"

#include <curl/curl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum {
	HTTP_ANSWER_MAX =
	    32 * 1024 *
	    1024, /* of an answer that is kept: a list of 4096 sandboxes with their metadata */
	HTTP_WAIT_S = 300,    /* for an ordinary answer */
	HTTP_SILENCE_S = 120, /* of a stream, before it counts as lost */
};

enum http_patience {
	HTTP_ORDINARY, /* HTTP_WAIT_S for all */
	HTTP_STREAM,   /* no limit but of silence */
	HTTP_PATIENT,  /* none: a sandbox may take as long as it likes, and others see when the
			  daemon is lost */
};

struct http {
	const struct place *where; /* borrowed */
	CURLM *multi;
};

struct http_call {
	/* what is asked */
	const char *method, *path; /* path: behind the daemon's URL, begins with '/' */
	const void *body;	   /* borrowed until the end; NULL = none, or `fill` */
	size_t body_n;
	const char *type; /* Content-Type of the body */
	/* A body as it is made: n bytes at most into p. 0 = its end, CURL_READFUNC_PAUSE (then
	 * http_go), CURL_READFUNC_ABORT. */
	size_t (*fill)(void *arg, char *p, size_t n);
	/* An answer of status 200 as it comes: all n bytes are taken, or CURL_WRITEFUNC_PAUSE (then
	 * http_go), or an error. NULL: kept. */
	size_t (*take)(void *arg, const char *p, size_t n);
	void *arg;
	enum http_patience patience;

	/* what comes */
	bool done;
	CURLcode code;	   /* CURLE_OK: there was an answer */
	unsigned status;   /* 0 = none yet */
	struct buf answer; /* unless `take` got it */
	char next[128];	   /* X-Next-Token */

	/* http.c's */
	CURL *easy;
	struct curl_slist *fields;
	char error[CURL_ERROR_SIZE];
	char *url; /* owned */
};

int must_check http_open(struct http *h, const struct place *w, struct err *e);
void http_close(struct http *h); /* accepts a zeroed one */

/* A field of the request to come. A value with control characters is refused: -EINVAL. */
int must_check http_field(struct http_call *c, const char *name, const char *value);
/* Begin; the rest happens in http_turn. */
int must_check http_start(struct http *h, struct http_call *c, struct err *e);
/* Wait for the network and for pf[0..n) (revents are set), at most wait_ms (-1: no limit), and do
 * what can be done. */
int must_check http_turn(struct http *h, struct pollfd *pf, unsigned n, int wait_ms, struct err *e);
/* A paused call goes on. */
void http_go(struct http_call *c);
/* Begin it and wait for its end. -errno only when it could not be tried; see http_failed. */
int must_check http_run(struct http *h, struct http_call *c, struct err *e);
/* Free what the call holds, and end it if it still runs. */
void http_done(struct http *h, struct http_call *c);

/* After `done` without an answer: say why in words that help. */
int http_failed(const struct http *h, const struct http_call *c, struct err *e);

/* An unconnected handle with this daemon's settings for a path of it; NULL = no memory. */
CURL *http_handle(const struct http *h, const char *path, char **ret_url);

/* Append s to b percent-encoded (all but unreserved characters). 0, -ENOMEM, -ENOBUFS. */
int must_check http_put_encoded(struct buf *b, const char *s);
