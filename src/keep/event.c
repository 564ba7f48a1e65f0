#include "keep/event.h"

#include "base/base64.h"
#include "base/num.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Data is what a program wrote, of any content; base64 makes JSON of it. */

char *event_data(const char *channel, const void *p, size_t n, size_t *ret_n)
{
	static const char before[] = "{\"event\":{\"data\":{\"", middle[] = "\":\"",
			  after[] = "\"}}}";
	size_t code = base64_size(n), name = strlen(channel);
	char *s = malloc(sizeof(before) + name + sizeof(middle) + code + sizeof(after)), *d = s;

	if (s == NULL)
		return NULL;
	d = mempcpy(d, before, sizeof(before) - 1);
	d = mempcpy(d, channel, name);
	d = mempcpy(d, middle, sizeof(middle) - 1);
	base64_put(d, p, n);
	d = mempcpy(d + code, after, sizeof(after) - 1);
	*ret_n = (size_t)(d - s);
	return s;
}

static const char *const signals[] = {
#define SIGNAL_WORD(sig, word) [sig] = word,
#include "wire/signal_words.def"
#undef SIGNAL_WORD
};

void event_status(const struct stream_result *r, char *dst, size_t size)
{
	if (r->how == HOW_EXIT)
		(void)snprintf(dst, size, "exit status %u", r->code);
	else if (r->code < ARRAY_LEN(signals) && signals[r->code] != NULL)
		(void)snprintf(dst, size, "signal: %s", signals[r->code]);
	else
		(void)snprintf(dst, size, "signal: signal %u", r->code);
}

json_t *event_start(uint32_t pid)
{
	return json_pack("{s:{s:{s:I}}}", "event", "start", "pid", (json_int_t)pid);
}

json_t *event_end(int exit_code, bool exited, const char *status)
{
	json_t *o = json_pack("{s:i, s:b, s:s}", "exitCode", exit_code, "exited", (int)exited,
			      "status", status);

	if (o != NULL && exit_code != 0)
		(void)json_object_set_new(o, "error", json_string(status));
	return json_pack("{s:{s:o}}", "event", "end", o);
}

json_t *event_keepalive(void) { return json_pack("{s:{s:{}}}", "event", "keepalive"); }
