#include "parse/http_chunks.h"

#include "base/num.h"
#include "harness/test.h"

#include <errno.h>
#include <string.h>

static struct http_head h;
static const char *why;

static ssize_t req(const char *s)
{
	return http_parse((const uint8_t *)s, strlen(s), true, &h, &why);
}
static ssize_t res(const char *s)
{
	return http_parse((const uint8_t *)s, strlen(s), false, &h, &why);
}

TEST(a_request)
{
	const char *s =
	    "POST /a%20b?c HTTP/1.1\r\nHost: x.test\r\nContent-Length: 12\r\nX: \t y z \r\n\r\n";

	CHECK(req(s) == (ssize_t)strlen(s));
	CHECK(h.method.n == 4 && h.target.n == 8 && h.body == HTTP_LENGTH && h.length == 12 &&
	      !h.close);
	CHECK(h.host.n == 6 && h.fields_n == 3 && http_find(&h, "x").n == 3);
	CHECK(http_parse((const uint8_t *)s, strlen(s) - 1, true, &h, &why) == 0);
}

TEST(ambiguity_is_refused)
{
	static const char *const heads[] = {
	    "GET / HTTP/1.1\r\n\r\n",
	    "GET / HTTP/1.1\r\nHost: a.test\r\nHost: a.test\r\n\r\n",
	    "GET / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n",
	    "GET / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 1\r\nTransfer-Encoding: "
	    "chunked\r\n\r\n",
	    "GET / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: "
	    "chunked\r\n\r\n",
	    "GET / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
	    "GET / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: xchunked\r\n\r\n",
	    "GET / HTTP/1.0\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n",
	    "GET / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding : chunked\r\n\r\n",
	    "GET / HTTP/1.1\r\nHost: a.test\r\nContent-Length: +1\r\n\r\n",
	    "GET / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 1, 1\r\n\r\n",
	    "GET / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 99999999999999999999\r\n\r\n",
	    "GET / HTTP/1.1\r\nHost: a.test\r\n X: y\r\n\r\n",
	    "GET / HTTP/1.1\r\nHost: a.test\nX: y\r\n\r\n",
	    "GET / HTTP/1.1\r\nHost: a.test\rX: y\r\n\r\n",
	    "GET / HTTP/1.1\nHost: a.test\n\n",
	    "GET  / HTTP/1.1\r\nHost: a.test\r\n\r\n",
	    "GET / x HTTP/1.1\r\nHost: a.test\r\n\r\n",
	    "GET / HTTP/1.1 \r\nHost: a.test\r\n\r\n",
	    "GET / HTTP/2.0\r\nHost: a.test\r\n\r\n",
	    "GET /\r\nHost: a.test\r\n\r\n",
	    "get / HTTP/1.1\r\nHost: a.test\r\n\r\n",
	    "G\"T / HTTP/1.1\r\nHost: a.test\r\n\r\n",
	    "CONNECT a.test:443 HTTP/1.1\r\nHost: a.test\r\n\r\n",
	    "GET * HTTP/1.1\r\nHost: a.test\r\n\r\n",
	    "GET a.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n",
	    "GET /#x HTTP/1.1\r\nHost: a.test\r\n\r\n",
	    "GET /\xc3\xa4 HTTP/1.1\r\nHost: a.test\r\n\r\n",
	    "GET ftp://a.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n",
	    "GET http:///x HTTP/1.1\r\nHost: a.test\r\n\r\n",
	    "GET / HTTP/1.1\r\nHost: a.test\r\nExpect: everything\r\n\r\n",
	    "GET / HTTP/1.1\r\nHost: a.test\r\nUpgrade: h2c, websocket\r\n\r\n",
	    "GET / HTTP/1.1\r\nHost: a.test\r\n: x\r\n\r\n",
	    "GET / HTTP/1.1\r\nHost: a.test\r\nnocolon\r\n\r\n",
	    "\r\nGET / HTTP/1.1\r\nHost: a.test\r\n\r\n",
	    "GET / HTTP/1.1\r\nHost: a.test\r\nX: a\x01\r\n\r\n",
	};

	for (size_t i = 0; i < ARRAY_LEN(heads); i++) {
		if (req(heads[i]) != -EBADMSG)
			printf("# %s\n", heads[i]);
		CHECK(req(heads[i]) == -EBADMSG);
	}
	CHECK(http_parse((const uint8_t *)"GET / HTTP/1.1\r\nHost: a\0b\r\n\r\n", 29, true, &h,
			 &why) == -EBADMSG);
}

TEST(absolute_targets)
{
	CHECK(req("GET https://b.test:443/p?q HTTP/1.1\r\nHost: a.test\r\n\r\n") > 0);
	CHECK(h.secure && h.authority.n == 10 && memcmp(h.authority.p, "b.test:443", 10) == 0);
	CHECK(h.target.n == 4 && memcmp(h.target.p, "/p?q", 4) == 0);
	CHECK(req("GET http://b.test HTTP/1.1\r\nHost: a.test\r\n\r\n") > 0);
	CHECK(h.target.n == 1 && !h.secure);
}

TEST(sizes)
{
	static char big[HTTP_HEAD_MAX + 100];
	size_t n = (size_t)snprintf(big, sizeof(big), "GET / HTTP/1.1\r\nHost: a.test\r\n");

	for (int i = 0; i < HTTP_FIELDS_MAX; i++)
		n += (size_t)snprintf(big + n, sizeof(big) - n, "a: b\r\n");
	(void)snprintf(big + n, sizeof(big) - n, "\r\n");
	CHECK(req(big) == -E2BIG);
	memset(big, 'a', sizeof(big) - 1);
	memcpy(big, "GET /", 5);
	CHECK(req(big) == -E2BIG);
}

TEST(hops)
{
	CHECK(req("GET / HTTP/1.1\r\nHost: a.test\r\nConnection: close, X-Mine\r\nx-mine: "
		  "1\r\n\r\n") > 0);
	CHECK(h.close && http_is_hop(&h, h.field[2].name) && http_is_hop(&h, h.field[1].name));
	CHECK(!http_is_hop(&h, h.field[0].name));
}

TEST(responses)
{
	CHECK(res("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n") > 0);
	CHECK(http_response_body(&h, false) == HTTP_LENGTH &&
	      http_response_body(&h, true) == HTTP_NONE);
	CHECK(res("HTTP/1.1 304 Not Modified\r\nContent-Length: 3\r\n\r\n") > 0 &&
	      http_response_body(&h, false) == HTTP_NONE);
	CHECK(res("HTTP/1.1 200\r\n\r\n") > 0 && http_response_body(&h, false) == HTTP_TO_END);
	CHECK(res("HTTP/1.0 200 OK\r\n\r\n") > 0 && h.close);
	CHECK(res("HTTP/1.1 20 OK\r\n\r\n") == -EBADMSG);
	CHECK(res("HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n") ==
	      -EBADMSG);
}

static int chunks(const char *s, char *out)
{
	struct http_chunks c = {0};
	size_t n = strlen(s), d_n;
	const uint8_t *p = (const uint8_t *)s, *d;

	out[0] = '\0';
	while (!c.done) {
		ssize_t r = http_chunks_step(&c, p, n, &d, &d_n);

		if (r <= 0)
			return r < 0 ? -1 : 0;
		(void)strncat(out, (const char *)d, d_n);
		p += r;
		n -= (size_t)r;
	}
	return 1;
}

TEST(chunked)
{
	static const char *const wrong[] = {"5\nhello\r\n0\r\n\r\n",
					    "5\r\nhelloX\r\n0\r\n\r\n",
					    "-1\r\n",
					    "0x5\r\nhello\r\n",
					    " 5\r\nhello\r\n",
					    "5 \r\nhello\r\n",
					    "\r\n",
					    "5;a\x01\r\nhello\r\n",
					    "1234567890123456\r\n",
					    "0\r\nbad trailer\r\n\r\n",
					    "0\r\n : x\r\n\r\n",
					    "5;\r\rhello"};
	char out[64];

	CHECK(chunks("5\r\nhello\r\n6;x=y\r\n world\r\n0\r\nT: 1\r\n\r\n", out) == 1 &&
	      strcmp(out, "hello world") == 0);
	CHECK(chunks("5\r\nhel", out) == 0 && strcmp(out, "hel") == 0);
	for (size_t i = 0; i < ARRAY_LEN(wrong); i++)
		CHECK(chunks(wrong[i], out) == -1);
}

TEST(lists_of_words)
{
	CHECK(http_list_has(http_text("keep-alive, Upgrade"), http_text("upgrade")));
	CHECK(http_list_has(http_text("UPGRADE"), http_text("upgrade")));
	CHECK(http_list_has(http_text(" , a ,upgrade,"), http_text("Upgrade")));
	CHECK(!http_list_has(http_text("upgraded, up grade"), http_text("upgrade")));
	CHECK(!http_list_has(http_text(""), http_text("upgrade")));
	CHECK(!http_list_has(http_text(",,"), http_text("")));
	CHECK(http_hop(http_text("Upgrade")) && http_hop(http_text("te")) && http_hop(http_text("Proxy-Connection")));
	CHECK(!http_hop(http_text("host")) && !http_hop(http_text("upgrade-insecure-requests")) && !http_hop(http_text("")));
}

TEST_MAIN()
