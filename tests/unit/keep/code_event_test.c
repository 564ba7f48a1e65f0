#include "harness/test.h"
#include "keep/code_event.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int read_line(const char *line, char out[512])
{
	json_t *o = NULL;
	struct buf b;
	int r = code_event(line, strlen(line), &o);

	buf_init(&b, 511);
	if (r >= 0 && code_event_put(&b, o) < 0)
		r = -ENOBUFS;
	if (b.len > 0)
		memcpy(out, buf_head(&b), b.len);
	out[b.len] = '\0';
	buf_done(&b);
	json_decref(o);
	return r;
}

TEST(events_are_written_anew)
{
	char out[512];

	CHECK(read_line("{\"type\":\"end_of_execution\"}", out) == CODE_END);
	CHECK(strcmp(out, "{\"type\":\"end_of_execution\"}\n") == 0);
	CHECK(read_line(" { \"type\" : \"stdout\", \"text\" : \"h\303\251\\u0000\" } ", out) ==
	      CODE_STDOUT);
	CHECK(strcmp(out, "{\"type\":\"stdout\",\"text\":\"h\\u00E9\\u0000\"}\n") == 0);
	CHECK(read_line("{\"type\":\"result\",\"is_main_result\":true,\"extra\":{},\"json\":[1],"
			"\"text\":null}",
			out) == CODE_RESULT);
	CHECK(strstr(out, "text") == NULL && strstr(out, "[1]") != NULL);
}

TEST(what_is_no_event)
{
	static const char *const bad[] = {
	    "",
	    "null",
	    "[]",
	    "{}",
	    "{\"type\":1}",
	    "{\"type\":\"keepalive\"}",
	    "{\"type\":\"stdout\"}",
	    "{\"type\":\"stdout\",\"text\":\"\",\"timestamp\":\"x\"}",
	    "{\"type\":\"stdout\",\"text\":\"\\ud800\"}",
	    "{\"type\":\"stdout\",\"text\":\"\377\"}",
	    "{\"type\":\"ready\"} {}",
	    "{\"type\":\"ready\",\"type\":\"ready\"}",
	    "{\"type\":\"number_of_executions\",\"execution_count\":-1}",
	    "{\"type\":\"result\",\"is_main_result\":1,\"extra\":{}}",
	    "{\"type\":\"result\",\"is_main_result\":true,\"extra\":{},\"png\":{}}",
	    "{\"type\":\"result\",\"is_main_result\":true,\"extra\":{},\"json\":1e999}"};
	char out[512];

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		CHECK(read_line(bad[i], out) == -EPROTO);
}

TEST(bounds)
{
	char *line = malloc(CODE_LINE_MAX + 2);
	json_t *o;

	CHECK(line != NULL);
	memset(line, ',', CODE_LINE_MAX + 1);
	CHECK(code_event(line, CODE_VALUES_MAX + 1, &o) == -E2BIG && o == NULL);
	memset(line, ' ', CODE_LINE_MAX + 1);
	CHECK(code_event(line, CODE_LINE_MAX + 1, &o) == -E2BIG);
	free(line);
}

TEST_MAIN()
