#include "harness/test.h"
#include "interp/interp.h"

#include <errno.h>
#include <string.h>

static int ask(const char *language, const char *line, char out[1024], bool *execute)
{
	struct buf b;
	int r;

	buf_init(&b, 1023);
	r = interp_command(interp_kernel(language), line, strlen(line), &b, execute);
	if (b.len > 0)
		memcpy(out, buf_head(&b), b.len);
	out[b.len] = '\0';
	buf_done(&b);
	return r;
}

TEST(languages)
{
	CHECK(interp_kernel("python") != NULL && interp_kernel("bash") != NULL);
	CHECK(interp_kernel("Python") == NULL && interp_kernel("") == NULL);
	CHECK(interp_kernel("python")->source_end - interp_kernel("python")->source > 1000);
}

TEST(as_they_came)
{
	char out[1024];
	bool x;

	CHECK(ask("python", "{\"op\":\"execute\",\"code\":\"1\"}", out, &x) == 0 && x);
	CHECK(strcmp(out, "{\"op\":\"execute\",\"code\":\"1\"}\n") == 0);
	CHECK(ask("python", "{\"op\":\"interrupt\"}", out, &x) == 1 && !x && out[0] == '\0');
	CHECK(ask("javascript", "{\"op\":\"interrupt\"}", out, &x) == 1 && out[0] == '{');
}

TEST(for_a_shell)
{
	char out[1024];
	bool x;

	CHECK(ask("bash", "{\"op\":\"execute\",\"code\":\"a'b\\\\\\n1\",\"env\":{\"A\":\"\"}}", out,
		  &x) == 0 &&
	      x);
	CHECK(strcmp(out,
		     "__brig_env $'A' $''; eval -- $'a\\'b\\\\\\0121' </dev/null\n__brig_end\n") ==
	      0);
	CHECK(ask("bash", "{\"op\":\"setup\",\"cwd\":\"/x y\"}", out, &x) == 0 && !x);
	CHECK(strcmp(out, "__brig_setup $'/x y'\n") == 0);
}

TEST(no_commands)
{
	static const char *const bad[] = {"",
					  "{}",
					  "[]",
					  "{\"op\":1}",
					  "{\"op\":\"exec\"}",
					  "{\"op\":\"execute\"}",
					  "{\"op\":\"execute\",\"code\":\"1\",\"env\":[]}",
					  "{\"op\":\"setup\",\"env\":{\"A\":1}}",
					  "{\"op\":\"execute\",\"code\":\"\\u0000\"}"};
	char out[1024];
	bool x;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		CHECK(ask("bash", bad[i], out, &x) == -EPROTO);
}

TEST_MAIN()
