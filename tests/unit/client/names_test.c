/* The words of `brig cp` and `brig port`, spans and sizes for people. */
#include "client/client.h"
#include "client/copying.h"
#include "client/forward.h"
#include "harness/test.h"

#include <string.h>

static struct err err;

TEST(which_word_is_inside)
{
	const char *path = NULL;
	size_t n = 0;

	CHECK(copying_split("iabc:/tmp/x", &n, &path) && n == 4 && strcmp(path, "/tmp/x") == 0);
	CHECK(copying_split("i:", &n, &path) && n == 1 && path[0] == '\0');
	CHECK(copying_split("i:a:b", &n, &path) && strcmp(path, "a:b") == 0);
	CHECK(!copying_split("./i:x", &n, &path));
	CHECK(!copying_split("/i:x", &n, &path));
	CHECK(!copying_split("A:x", &n, &path));
	CHECK(!copying_split(":x", &n, &path));
	CHECK(!copying_split("plain", &n, &path));
}

static bool named(const char *path, const char *want)
{
	char name[256];

	return copying_name(path, name) == 0 && strcmp(name, want) == 0;
}

TEST(names_of_paths)
{
	char name[256], longer[258];

	CHECK(named("/a/b", "b") && named("b", "b") && named("a/b///", "b") &&
	      named("/a/...", "..."));
	CHECK(named("/", "") && named("", "") && named(".", "") && named("a/.", "") &&
	      named("~", "") && named("a/./", ""));
	CHECK(copying_name("..", name) < 0 && copying_name("a/..", name) < 0 &&
	      copying_name("/a/../", name) < 0);
	memset(longer, 'n', 256);
	longer[256] = '\0';
	CHECK(copying_name(longer, name) < 0 && named(longer + 1, longer + 1));
}

TEST(addresses_to_forward)
{
	char host[64], port[8];

	CHECK(forward_address("8080", host, port, &err) == 0 && strcmp(host, "127.0.0.1") == 0 &&
	      strcmp(port, "8080") == 0);
	CHECK(forward_address("0.0.0.0:1", host, port, &err) == 0 && strcmp(host, "0.0.0.0") == 0);
	CHECK(forward_address("[::1]:65535", host, port, &err) == 0 && strcmp(host, "::1") == 0 &&
	      strcmp(port, "65535") == 0);
	CHECK(forward_address("65536", host, port, &err) < 0 &&
	      forward_address("", host, port, &err) < 0);
	CHECK(forward_address(":80", host, port, &err) < 0 &&
	      forward_address("a:", host, port, &err) < 0);
	CHECK(forward_address("80x", host, port, &err) < 0);
}

static int head_at(const char *where, const char *text, struct buf *out)
{
	const struct box_ref b = {.id = "iabc", .traffic = "tok"};
	const char *why = NULL;
	bool switches;

	*out = (struct buf){.max = 4096};
	return forward_head((const uint8_t *)text, strlen(text), &b, 80, where, out, &switches,
			    &why);
}

static int head(const char *text, struct buf *out) { return head_at("127.0.0.1:7080", text, out); }

TEST(a_head_names_this_sandbox_only)
{
	static const char text[] = "GET /a?b HTTP/1.1\r\nHost: evil\r\nE2B-Sandbox-Id: "
				   "other\r\nX-API-Key: k\r\nConnection: keep-alive, X-Hop\r\n"
				   "X-Hop: 1\r\nAccept: */*\r\n\r\nrest";
	struct buf out;

	CHECK(head(text, &out) == (int)strlen(text) - 4);
	CHECK(out.len == strlen("GET /a?b HTTP/1.1\r\nAccept: */*\r\nHost: "
				"127.0.0.1:7080\r\nE2b-Sandbox-Id: iabc\r\nE2b-Sandbox-Port: 80\r\n"
				"E2b-Traffic-Access-Token: tok\r\nConnection: close\r\n\r\n") &&
	      memcmp(buf_head(&out),
		     "GET /a?b HTTP/1.1\r\nAccept: */*\r\nHost: 127.0.0.1:7080\r\nE2b-Sandbox-Id: "
		     "iabc\r\nE2b-Sandbox-Port: 80\r\n"
		     "E2b-Traffic-Access-Token: tok\r\nConnection: close\r\n\r\n",
		     out.len) == 0);
	buf_done(&out);
	CHECK(head("GET / HTTP/1.1\r\nHost: a\r\nHo", &out) == 0);
	buf_done(&out);
	CHECK(head("GET /\nHost: a\r\n\r\n", &out) < 0);
	buf_done(&out);
	CHECK(head("GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
		   &out) > 0);
	CHECK(out.len > 52 &&
	      memcmp(buf_head(&out) + out.len - 52,
		     "\r\nUpgrade: websocket\r\nConnection: upgrade, close\r\n\r\n", 52) == 0);
	buf_done(&out);
	CHECK(head_at("brig.example/api", "GET /x HTTP/1.1\r\nHost: a\r\n\r\n", &out) > 0);
	CHECK(out.len > 45 &&
	      memcmp(buf_head(&out), "GET /api/x HTTP/1.1\r\nHost: brig.example\r\nE2b-", 45) ==
		  0);
	buf_done(&out);
	CHECK(head("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: "
		   "chunked\r\n\r\n",
		   &out) < 0);
	buf_done(&out);
}

TEST(times_and_sizes)
{
	char s[SPAN_TEXT];

	CHECK(client_time("1970-01-01T00:00:01.500Z") == 1500);
	CHECK(client_time("1970-01-01T00:00:01Z") == 1000);
	CHECK(client_time("1970-01-01T00:00:01") == -1 && client_time("x") == -1 &&
	      client_time(NULL) == -1);
	CHECK(client_time("1970-01-01T00:00:01.99999999999999999999999Z") == 1999);
	CHECK(strcmp(client_span(-5, s), "0s") == 0 && strcmp(client_span(90000, s), "90s") == 0);
	CHECK(strcmp(client_span(120000, s), "2m") == 0 &&
	      strcmp(client_span(INT64_C(86400000) * 9, s), "9d") == 0);
	CHECK(strcmp(client_size(0, s), "0B") == 0 && strcmp(client_size(1536, s), "1.5K") == 0);
	CHECK(strcmp(client_size(UINT64_MAX, s), "15E") == 0);
}

TEST_MAIN()
