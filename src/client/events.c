#include "client/events.h"

#include "base/base64.h"
#include "base/cleanup.h"
#include "base/num.h"
#include "client/api.h"
#include "wire/envelope.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

/* Events that nobody knows are skipped, as the protocol wants it of clients; one that is known must
 * have its form. */

static const struct {
	int sig;
	const char *word;
} signals[] = {
#define SIGNAL_WORD(sig, word) {sig, word},
#include "wire/signal_words.def"
#undef SIGNAL_WORD
};

void events_init(struct events *ev) { buf_init(&ev->in, EVENT_MESSAGE_MAX + ENVELOPE_HEADER); }
void events_done(struct events *ev) { buf_done(&ev->in); }

/* "signal: killed" */
static int signal_of(const char *status)
{
	static const char prefix[] = "signal: ";
	size_t n = sizeof(prefix) - 1;
	unsigned nr = 0;

	if (status == NULL || strncmp(status, prefix, n) != 0)
		return 0;
	for (size_t i = 0; i < ARRAY_LEN(signals); i++)
		if (strcmp(signals[i].word, status + n) == 0)
			return signals[i].sig;
	for (const char *p = strncmp(status + n, "signal ", 7) == 0 ? status + n + 7 : "";
	     *p >= '0' && *p <= '9' && nr < 128; p++)
		nr = nr * 10 + (unsigned)(*p - '0');
	return nr > 0 && nr < 128 ? (int)nr : 0;
}

static int on_start(struct events *ev, const json_t *o)
{
	const json_t *v = json_object_get(o, "pid");
	json_int_t pid = json_integer_value(v);

	if (ev->started || !json_is_integer(v) || pid < 0 || pid > UINT32_MAX)
		return -EPROTO;
	ev->started = true;
	if (ev->start != NULL)
		ev->start(ev->arg, (uint32_t)pid);
	return 0;
}

static int on_end(struct events *ev, const json_t *o)
{
	json_int_t code = json_integer_value(json_object_get(o, "exitCode"));

	if (ev->ended || !ev->started)
		return -EPROTO;
	ev->ended = true;
	ev->exited = json_is_true(json_object_get(o, "exited"));
	if (ev->exited && (code < 0 || code > 255))
		return -EPROTO;
	ev->exit_code = ev->exited ? (int)code : -1;
	ev->signal = ev->exited ? 0 : signal_of(api_text(o, "status"));
	return 0;
}

static int on_bytes(struct events *ev, enum event_channel chan, const json_t *v)
{
	size_t n = json_string_length(v);
	_cleanup_free_ uint8_t *p = malloc(n + 1);
	ssize_t got;

	if (p == NULL)
		return -ENOMEM;
	got = base64_decode(json_string_value(v), n, p, n + 1);
	if (got < 0)
		return -EPROTO;
	return got > 0 && ev->data != NULL ? ev->data(ev->arg, chan, p, (size_t)got) : 0;
}

static int on_data(struct events *ev, const json_t *o)
{
	static const char *const names[] = {
	    [EVENT_STDOUT] = "stdout", [EVENT_STDERR] = "stderr", [EVENT_PTY] = "pty"};

	if (!ev->started || ev->ended)
		return -EPROTO;
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		const json_t *v = json_object_get(o, names[i]);

		if (json_is_string(v))
			return on_bytes(ev, (enum event_channel)i, v);
	}
	return 0;
}

static int on_event(struct events *ev, const json_t *message)
{
	const json_t *e = json_object_get(message, "event"), *o;

	if ((o = json_object_get(e, "data")) != NULL)
		return on_data(ev, o);
	if ((o = json_object_get(e, "start")) != NULL)
		return on_start(ev, o);
	if ((o = json_object_get(e, "end")) != NULL)
		return on_end(ev, o);
	return 0;
}

static int on_close(struct events *ev, const json_t *message)
{
	const json_t *error = json_object_get(message, "error");
	const char *code = api_text(error, "code"), *text = api_text(error, "message");

	ev->closed = true;
	if (error == NULL)
		return 0;
	(void)snprintf(ev->code, sizeof(ev->code), "%s", code != NULL ? code : "unknown");
	(void)snprintf(ev->text, sizeof(ev->text), "%s", text != NULL ? text : "");
	return 0;
}

static int on_message(struct events *ev, const struct envelope *m)
{
	json_t *o = json_loadb((const char *)m->p, m->n, JSON_REJECT_DUPLICATES, NULL);
	int r = -EPROTO;

	if (json_is_object(o))
		r = (m->flags & ENVELOPE_END) != 0 ? on_close(ev, o) : on_event(ev, o);
	json_decref(o);
	return r;
}

static int take_messages(struct events *ev)
{
	struct envelope m;
	int used;

	while ((used = envelope_next(buf_head(&ev->in), ev->in.len, EVENT_MESSAGE_MAX, &m)) > 0) {
		int r = ev->closed ? -EPROTO : on_message(ev, &m);

		if (r < 0)
			return r;
		buf_consume(&ev->in, (size_t)used);
	}
	return used < 0 || (ev->closed && ev->in.len > 0) ? -EPROTO : 0;
}

int events_feed(struct events *ev, const void *p, size_t n)
{
	const uint8_t *b = p;
	int r = 0;

	while (r == 0 && n > 0) {
		size_t part = MIN(n, buf_room(&ev->in));

		/* a message that does not fit was refused by its length already, so there is room
		 */
		r = part == 0 ? -EPROTO : buf_put(&ev->in, b, part);
		if (r == 0)
			r = take_messages(ev);
		b += part;
		n -= part;
	}
	return r;
}
