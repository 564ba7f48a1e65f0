#include "client/http.h"

#include "base/num.h"
#include "base/quote.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * Nothing but the daemon's own answer is ever followed: no redirect, no proxy for what stays on
 * this machine or is not encrypted, no other protocol than HTTP. The key is a field of the requests
 * that need it (api.c), never of a sandbox's.
 */

enum { CONNECT_S = 10, EXTRA_MAX = 16, ERROR_MAX = 64 * 1024 };

int http_open(struct http *h, const struct place *w, struct err *e)
{
	*h = (struct http){.where = w};
	if (curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK)
		h->multi = curl_multi_init();
	return h->multi == NULL ? err_no_memory(e) : 0;
}

void http_close(struct http *h)
{
	if (h->multi != NULL)
		(void)curl_multi_cleanup(h->multi);
	h->multi = NULL;
}

int http_field(struct http_call *c, const char *name, const char *value)
{
	char line[1024];
	struct curl_slist *all;

	for (const char *p = value; *p != '\0'; p++)
		if (*p < ' ' || *p > '~')
			return -EINVAL;
	if ((size_t)snprintf(line, sizeof(line), "%s: %s", name, value) >= sizeof(line))
		return -EINVAL;
	all = curl_slist_append(c->fields, line);
	explicit_bzero(line, sizeof(line));
	if (all == NULL)
		return -ENOMEM;
	c->fields = all;
	return 0;
}

int http_put_encoded(struct buf *b, const char *s)
{
	static const char hex[] = "0123456789ABCDEF", plain[] = "-._~";
	int r = 0;

	for (; *s != '\0' && r == 0; s++) {
		unsigned char c = (unsigned char)*s;
		char code[3] = {'%', hex[c >> 4], hex[c & 15]};
		bool as_is = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
			     (c >= 'A' && c <= 'Z') || strchr(plain, c) != NULL;

		r = as_is ? buf_put(b, s, 1) : buf_put(b, code, sizeof(code));
	}
	return r;
}

/* ---- what libcurl calls ---- */

static size_t on_body(char *p, size_t size, size_t n, void *arg)
{
	struct http_call *c = arg;
	long status = 0;

	n *= size;
	(void)curl_easy_getinfo(c->easy, CURLINFO_RESPONSE_CODE, &status);
	if (c->take != NULL && status == 200)
		return c->take(c->arg, p, n);
	if (status >= 300) { /* a reason for people: what does not fit is left out */
		size_t part = MIN(n, ERROR_MAX - MIN(c->answer.len, (size_t)ERROR_MAX));

		return part == 0 || buf_put(&c->answer, p, part) == 0 ? n : 0;
	}
	return buf_put(&c->answer, p, n) == 0 ? n : 0;
}

static size_t on_field(char *p, size_t size, size_t n, void *arg)
{
	static const char name[] = "x-next-token:";
	struct http_call *c = arg;
	size_t len = size * n, at = sizeof(name) - 1;

	if (len <= at || strncasecmp(p, name, at) != 0)
		return len;
	while (at < len && p[at] == ' ')
		at++;
	while (len > at && (p[len - 1] == '\r' || p[len - 1] == '\n'))
		len--;
	if (len - at < sizeof(c->next)) {
		memcpy(c->next, p + at, len - at);
		c->next[len - at] = '\0';
	}
	return size * n;
}

static size_t on_want(char *p, size_t size, size_t n, void *arg)
{
	const struct http_call *c = arg;

	return c->fill(c->arg, p, size * n);
}

/* ---- a call ---- */

CURL *http_handle(const struct http *h, const char *path, char **ret_url)
{
	const struct place *w = h->where;
	CURL *c = curl_easy_init();

	if (c == NULL || asprintf(ret_url, "%s%s", w->url, path) < 0) {
		*ret_url = NULL;
		curl_easy_cleanup(c);
		return NULL;
	}
	(void)curl_easy_setopt(c, CURLOPT_URL, *ret_url);
	(void)curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https");
	(void)curl_easy_setopt(c, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	(void)curl_easy_setopt(c, CURLOPT_FOLLOWLOCATION, 0L);
	(void)curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
	(void)curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT, (long)CONNECT_S);
	(void)curl_easy_setopt(c, CURLOPT_TCP_KEEPALIVE, 1L);
	(void)curl_easy_setopt(c, CURLOPT_USERAGENT, "brig/" BRIG_VERSION);
	(void)curl_easy_setopt(c, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
	if (!w->secure)
		(void)curl_easy_setopt(c, CURLOPT_PROXY, "");
	if (w->socket != NULL)
		(void)curl_easy_setopt(c, CURLOPT_UNIX_SOCKET_PATH, w->socket);
	if (w->ca != NULL)
		(void)curl_easy_setopt(c, CURLOPT_CAINFO, w->ca);
	return c;
}

static void set_body(struct http_call *c)
{
	if (c->fill != NULL) {
		(void)curl_easy_setopt(c->easy, CURLOPT_POST, 1L);
		(void)curl_easy_setopt(c->easy, CURLOPT_READFUNCTION, on_want);
		(void)curl_easy_setopt(c->easy, CURLOPT_READDATA, c);
		(void)curl_easy_setopt(c->easy, CURLOPT_UPLOAD_BUFFERSIZE, 256L * 1024);
	} else if (c->body != NULL) {
		(void)curl_easy_setopt(c->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)c->body_n);
		(void)curl_easy_setopt(c->easy, CURLOPT_POSTFIELDS, c->body);
	}
	(void)curl_easy_setopt(c->easy, CURLOPT_CUSTOMREQUEST, c->method);
}

int http_start(struct http *h, struct http_call *c, struct err *e)
{
	int r = 0;

	if (c->answer.max == 0)
		buf_init(&c->answer, HTTP_ANSWER_MAX);
	if (c->type != NULL)
		r = http_field(c, "Content-Type", c->type);
	if (r == 0 && c->fill != NULL)
		r = http_field(c, "Transfer-Encoding", "chunked");
	if (r == 0)
		r = http_field(c, "Expect",
			       ""); /* "Expect:" alone takes it away: no round trip is waited for */
	c->easy = r == 0 ? http_handle(h, c->path, &c->url) : NULL;
	if (c->easy == NULL)
		return err_no_memory(e);
	set_body(c);
	(void)curl_easy_setopt(c->easy, CURLOPT_HTTPHEADER, c->fields);
	(void)curl_easy_setopt(c->easy, CURLOPT_WRITEFUNCTION, on_body);
	(void)curl_easy_setopt(c->easy, CURLOPT_WRITEDATA, c);
	(void)curl_easy_setopt(c->easy, CURLOPT_HEADERFUNCTION, on_field);
	(void)curl_easy_setopt(c->easy, CURLOPT_HEADERDATA, c);
	(void)curl_easy_setopt(c->easy, CURLOPT_ERRORBUFFER, c->error);
	(void)curl_easy_setopt(c->easy, CURLOPT_PRIVATE, c);
	(void)curl_easy_setopt(c->easy, CURLOPT_BUFFERSIZE, 128L * 1024);
	if (c->patience == HTTP_STREAM) {
		(void)curl_easy_setopt(c->easy, CURLOPT_LOW_SPEED_LIMIT, 1L);
		(void)curl_easy_setopt(c->easy, CURLOPT_LOW_SPEED_TIME, (long)HTTP_SILENCE_S);
	} else if (c->patience == HTTP_ORDINARY) {
		(void)curl_easy_setopt(c->easy, CURLOPT_TIMEOUT, (long)HTTP_WAIT_S);
	}
	if (curl_multi_add_handle(h->multi, c->easy) != CURLM_OK)
		return err_no_memory(e);
	return 0;
}

static void finish(CURL *easy, CURLcode code)
{
	struct http_call *c = NULL;
	long status = 0;

	(void)curl_easy_getinfo(easy, CURLINFO_PRIVATE, &c);
	(void)curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
	c->done = true;
	c->code = code;
	c->status = (unsigned)status;
}

int http_turn(struct http *h, struct pollfd *pf, unsigned n, int wait_ms, struct err *e)
{
	struct curl_waitfd extra[EXTRA_MAX];
	unsigned map[EXTRA_MAX], used = 0;
	CURLMsg *m;
	int left;

	for (unsigned i = 0; i < n && used < EXTRA_MAX; i++) {
		pf[i].revents = 0;
		if (pf[i].fd < 0)
			continue;
		extra[used] = (struct curl_waitfd){
		    .fd = pf[i].fd,
		    .events = (short)(((pf[i].events & POLLIN) ? CURL_WAIT_POLLIN : 0) |
				      ((pf[i].events & POLLOUT) ? CURL_WAIT_POLLOUT : 0))};
		map[used++] = i;
	}
	/* waited for first: what has ended by then was told in the turn before, and a call just
	 * begun or woken does not let it wait */
	if (curl_multi_poll(h->multi, extra, used, wait_ms < 0 ? 60000 : wait_ms, NULL) !=
		CURLM_OK ||
	    curl_multi_perform(h->multi, &left) != CURLM_OK)
		return err_set(e, ERR_INTERNAL, EIO, "libcurl failed");
	/* curl_multi_poll tells no hang-ups: the descriptors are asked themselves */
	for (unsigned i = 0; i < used; i++)
		(void)poll(&pf[map[i]], 1, 0);
	while ((m = curl_multi_info_read(h->multi, &left)) != NULL)
		if (m->msg == CURLMSG_DONE)
			finish(m->easy_handle, m->data.result);
	return 0;
}

void http_go(struct http_call *c)
{
	if (c->easy != NULL && !c->done)
		(void)curl_easy_pause(c->easy, CURLPAUSE_CONT);
}

int http_run(struct http *h, struct http_call *c, struct err *e)
{
	int r = http_start(h, c, e);

	while (r == 0 && !c->done)
		r = http_turn(h, NULL, 0, -1, e);
	return r;
}

void http_done(struct http *h, struct http_call *c)
{
	if (c->easy != NULL) {
		(void)curl_multi_remove_handle(h->multi, c->easy);
		curl_easy_cleanup(c->easy);
	}
	for (struct curl_slist *s = c->fields; s != NULL; s = s->next)
		explicit_bzero(s->data, strlen(s->data)); /* keys and tokens */
	curl_slist_free_all(c->fields);
	buf_done(&c->answer);
	free(c->url);
	c->easy = NULL;
	c->fields = NULL;
	c->url = NULL;
}

int http_failed(const struct http *h, const struct http_call *c, struct err *e)
{
	const struct place *w = h->where;
	const char *detail = c->error[0] != '\0' ? c->error : curl_easy_strerror(c->code);
	char q[QUOTE_MAX];

	(void)quote_bare(detail, q);
	switch ((int)c->code) {
	case CURLE_COULDNT_CONNECT:
	case CURLE_COULDNT_RESOLVE_HOST:
		return err_set(e, ERR_LOST, ECONNREFUSED,
			       "no daemon answers at %s: start it ('brigd --dev', or 'systemctl "
			       "start brigd'), or say where it is "
			       "with --url or BRIG_URL",
			       w->shown);
	case CURLE_PEER_FAILED_VERIFICATION:
	case CURLE_SSL_CACERT_BADFILE:
		return err_set(
		    e, ERR_DENIED, EPERM,
		    "the certificate of %s is not trusted: %s (--ca FILE names who vouches for it)",
		    w->shown, q);
	case CURLE_OPERATION_TIMEDOUT:
		return err_set(e, ERR_LOST, ETIMEDOUT, "the daemon at %s does not answer: %s",
			       w->shown, q);
	case CURLE_WRITE_ERROR:
		return err_set(e, ERR_LIMITED, EFBIG, "the answer of %s is larger than it may be",
			       w->shown);
	default:
		return err_set(e, ERR_LOST, EPIPE, "the connection to %s broke: %s", w->shown, q);
	}
}
