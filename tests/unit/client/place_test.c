#include "client/place.h"
#include "harness/test.h"

#include <stdlib.h>
#include <string.h>

static struct err err;

static int url(const char *text, bool plain, const char *want, bool secure)
{
	struct place w = {.url = NULL};
	int r = place_url(text, plain, &w, &err);
	int bad = r < 0								     ? r
		  : want != NULL && (strcmp(w.url, want) != 0 || w.secure != secure) ? 1
										     : 0;

	place_done(&w);
	return bad;
}
#define SAYS(s) (strstr(err.msg, s) != NULL)

TEST(urls)
{
	CHECK(url("http://127.0.0.1:7080", false, "http://127.0.0.1:7080", false) == 0);
	CHECK(url("http://localhost:1/", false, "http://localhost:1", false) == 0);
	CHECK(url("http://a.localhost", false, NULL, false) == 0);
	CHECK(url("http://[::1]:7080/base/", false, "http://[::1]:7080/base", false) == 0);
	CHECK(url("https://brig.example", false, "https://brig.example", true) == 0);
	CHECK(url("http://brig.example", true, NULL, false) == 0);
	CHECK(url("unix:/run/brigd.sock", false, "http://localhost", false) == 0);
}

TEST(urls_that_are_refused)
{
	CHECK(url("http://brig.example", false, NULL, false) < 0 && SAYS("--plain"));
	CHECK(url("http://127.evil.example", false, NULL, false) < 0 && SAYS("--plain"));
	CHECK(url("http://localhost.evil.example", false, NULL, false) < 0 && SAYS("--plain"));
	CHECK(url("http://127.0.0.1@evil.example", false, NULL, false) < 0);
	CHECK(url("http://u:p@127.0.0.1", false, NULL, false) < 0 && SAYS("--key-file"));
	CHECK(url("http://127.0.0.1/?key=x", false, NULL, false) < 0 && SAYS("'?'"));
	CHECK(url("ftp://127.0.0.1", false, NULL, false) < 0 && SAYS("https://"));
	CHECK(url("file:///etc/passwd", false, NULL, false) < 0);
	CHECK(url("unix:run.sock", false, NULL, false) < 0 && SAYS("absolute"));
	CHECK(url("", false, NULL, false) < 0);
	CHECK(url("http://\033[2J", false, NULL, false) < 0 && !SAYS("\033"));
}

TEST(keys)
{
	char key[PLACE_KEY_MAX + 1], longer[PLACE_KEY_MAX + 2];

	CHECK(place_key("e2b_00\n", key) == 0 && strcmp(key, "e2b_00") == 0);
	CHECK(place_key(" \t x \r\n", key) == 0 && strcmp(key, "x") == 0);
	CHECK(place_key("", key) < 0);
	CHECK(place_key("two words", key) < 0);
	CHECK(place_key("a\nb", key) < 0);
	CHECK(place_key("a\001", key) < 0);
	memset(longer, 'k', sizeof(longer) - 1);
	longer[sizeof(longer) - 1] = '\0';
	CHECK(place_key(longer, key) < 0);
	CHECK(place_key(longer + 1, key) == 0);
}

TEST(the_environment_is_read_in_order)
{
	struct place w = {.url = NULL};

	setenv("XDG_CONFIG_HOME", "/nonexistent", 1);
	unsetenv("BRIG_URL");
	setenv("E2B_API_URL", "http://127.0.0.1:1", 1);
	setenv("E2B_API_KEY", "b", 1);
	setenv("BRIG_API_KEY", "", 1);
	CHECK(place_find(&w, &err) == 0 && strcmp(w.url, "http://127.0.0.1:1") == 0 &&
	      strcmp(w.key, "b") == 0);
	place_done(&w);
	setenv("BRIG_URL", "http://127.0.0.1:2", 1);
	setenv("BRIG_API_KEY", "a", 1);
	CHECK(place_find(&w, &err) == 0 && strcmp(w.url, "http://127.0.0.1:2") == 0 &&
	      strcmp(w.key, "a") == 0);
	place_done(&w);
	unsetenv("BRIG_URL");
	unsetenv("E2B_API_URL");
	unsetenv("BRIG_API_KEY");
	unsetenv("E2B_API_KEY");
	CHECK(place_find(&w, &err) == 0 && strcmp(w.url, PLACE_DEFAULT_URL) == 0 && w.key == NULL);
	place_done(&w);
	setenv("BRIG_API_KEY", "not a key", 1);
	CHECK(place_find(&w, &err) < 0 && SAYS("BRIG_API_KEY"));
	place_done(&w);
}

TEST_MAIN()
