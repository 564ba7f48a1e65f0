#include "client/events.h"
#include "harness/test.h"
#include "wire/envelope.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct {
	uint32_t pid;
	char text[64];
	size_t n;
	enum event_channel last;
} seen;

static void on_start(void *arg, uint32_t pid)
{
	(void)arg;
	seen.pid = pid;
}

static int on_data(void *arg, enum event_channel chan, const uint8_t *p, size_t n)
{
	(void)arg;
	if (n > sizeof(seen.text) - seen.n)
		return -ENOBUFS;
	memcpy(seen.text + seen.n, p, n);
	seen.n += n;
	seen.last = chan;
	return 0;
}

/* All messages, `step` bytes at a time; one that begins with '!' is the stream's end. */
static int feed(struct events *ev, const char *const *messages, size_t step)
{
	struct buf b = {.max = 4096};
	int r = 0;

	memset(&seen, 0, sizeof(seen));
	*ev = (struct events){.start = on_start, .data = on_data};
	events_init(ev);
	for (; *messages != NULL; messages++) {
		bool end = **messages == '!';
		const char *text = *messages + end;

		if (envelope_put(&b, end ? ENVELOPE_END : 0, text, strlen(text)) < 0)
			abort();
	}
	for (size_t at = 0; r == 0 && at < b.len; at += step)
		r = events_feed(ev, buf_head(&b) + at, at + step < b.len ? step : b.len - at);
	buf_done(&b);
	events_done(ev);
	return r;
}

#define START "{\"event\":{\"start\":{\"pid\":7}}}"
#define OUT   "{\"event\":{\"data\":{\"stdout\":\"YQA=\"}}}"
#define END   "{\"event\":{\"end\":{\"exitCode\":3,\"exited\":true,\"status\":\"exit status 3\"}}}"

TEST(a_command_from_start_to_end)
{
	static const char *const all[] = {START,
					  OUT,
					  "{\"event\":{\"data\":{\"stderr\":\"Yg==\"}}}",
					  "{\"event\":{\"keepalive\":{}}}",
					  "{\"event\":{\"later\":{}}}",
					  END,
					  "!{}",
					  NULL};
	struct events ev;

	for (size_t step = 1; step < 400; step += step < 8 ? 1 : 97) {
		CHECK(feed(&ev, all, step) == 0);
		CHECK(seen.pid == 7 && seen.n == 3 && memcmp(seen.text, "a\0b", 3) == 0 &&
		      seen.last == EVENT_STDERR);
		CHECK(ev.ended && ev.exited && ev.exit_code == 3 && ev.closed &&
		      ev.code[0] == '\0');
	}
}

static int signal_in(const char *status)
{
	char end[128];
	const char *const all[] = {START, end, "!{}", NULL};
	struct events ev;

	(void)snprintf(end, sizeof(end),
		       "{\"event\":{\"end\":{\"exitCode\":-1,\"exited\":false,\"status\":\"%s\"}}}",
		       status);
	return feed(&ev, all, 1000) == 0 && ev.ended && !ev.exited ? ev.signal : -1;
}

TEST(ends_by_a_signal)
{
	CHECK(signal_in("signal: killed") == SIGKILL && signal_in("signal: interrupt") == SIGINT);
	CHECK(signal_in("signal: signal 34") == 34 && signal_in("signal: signal 999") == 0);
	CHECK(signal_in("signal: made up") == 0 && signal_in("") == 0);
}

TEST(a_failure_is_told_at_the_end)
{
	static const char *const all[] = {
	    "!{\"error\":{\"code\":\"not_found\",\"message\":\"no\"}}", NULL};
	struct events ev;

	CHECK(feed(&ev, all, 5) == 0 && ev.closed && strcmp(ev.code, "not_found") == 0 &&
	      strcmp(ev.text, "no") == 0);
}

static int refused(const char *a, const char *b, const char *c)
{
	const char *const all[] = {a, b, c, NULL};
	struct events ev;

	return feed(&ev, all, 1000) == -EPROTO;
}

TEST(what_is_not_of_the_form)
{
	struct events ev = {.arg = NULL};
	static const uint8_t large[] = {0, 0x7f, 0xff, 0xff, 0xff};

	CHECK(refused(START, START, NULL));
	CHECK(refused(OUT, NULL, NULL));
	CHECK(refused(END, NULL, NULL));
	CHECK(refused(START, END, END));
	CHECK(refused(START, END, OUT));
	CHECK(refused("!{}", START, NULL));
	CHECK(refused("[]", NULL, NULL));
	CHECK(refused("{\"a\":1,\"a\":1}", NULL, NULL));
	CHECK(refused("{\"event\":{\"start\":{\"pid\":-1}}}", NULL, NULL));
	CHECK(refused("{\"event\":{\"start\":{\"pid\":4294967296}}}", NULL, NULL));
	CHECK(refused(START, "{\"event\":{\"data\":{\"stdout\":\"%%\"}}}", NULL));
	CHECK(refused(START, "{\"event\":{\"end\":{\"exitCode\":256,\"exited\":true}}}", NULL));
	events_init(&ev);
	CHECK(events_feed(&ev, large, sizeof(large)) == -EPROTO);
	events_done(&ev);
}

TEST_MAIN()
