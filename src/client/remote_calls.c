#include "client/remote_calls.h"

#include "base/base64.h"
#include "base/num.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A call that fails says that the process is gone or reads no more; its end is told by Start's
 * stream, so nothing is said here. */

void remote_calls_init(struct remote_calls *r, struct client *c, const struct box_ref *box, bool in,
		       bool tty)
{
	*r = (struct remote_calls){.c = c, .box = box, .in = in, .tty = tty};
}

static void drop(struct remote_calls *r, struct remote_lane *l)
{
	http_done(&r->c->http, &l->call);
	free(l->text);
	l->text = NULL;
}

void remote_calls_done(struct remote_calls *r)
{
	drop(r, &r->input);
	drop(r, &r->control);
	free(r->chunk);
	r->chunk = NULL;
}

void remote_calls_begin(struct remote_calls *r, uint32_t pid)
{
	r->pid = pid;
	r->begun = true;
}

void remote_calls_signal(struct remote_calls *r, int sig)
{
	if (r->sigs < ARRAY_LEN(r->sig))
		r->sig[r->sigs++] = sig;
	else
		r->sig[ARRAY_LEN(r->sig) - 1] = sig; /* the last one counts */
}

void remote_calls_resize(struct remote_calls *r, uint16_t rows, uint16_t cols)
{
	r->resize = true;
	r->rows = rows;
	r->cols = cols;
}

/* ---- input ---- */

bool remote_calls_reads(const struct remote_calls *r)
{
	return r->begun && r->in && !r->in_ended && r->input.text == NULL && r->chunk_n == 0;
}

/* The first read does not wait, because poll(2) said so; more is taken while that holds. */
void remote_calls_read(struct remote_calls *r)
{
	struct pollfd pf = {.fd = STDIN_FILENO, .events = POLLIN};

	if (r->chunk == NULL)
		r->chunk = malloc(REMOTE_CHUNK);
	if (r->chunk == NULL) {
		r->in_ended = true;
		return;
	}
	do {
		ssize_t n = read(STDIN_FILENO, r->chunk + r->chunk_n, REMOTE_CHUNK - r->chunk_n);

		if (n < 0 && (errno == EINTR || errno == EAGAIN))
			break;
		if (n <= 0) {
			r->in_ended = r->close = true;
			break;
		}
		r->chunk_n += (size_t)n;
	} while (r->chunk_n < REMOTE_CHUNK && poll(&pf, 1, 0) > 0);
	if (r->close && r->tty &&
	    r->chunk_n < REMOTE_CHUNK) { /* a terminal's input has no other end */
		r->chunk[r->chunk_n++] = 4;
		r->close = false;
	}
}

/* ---- calls ---- */

/* Takes text. */
static bool send_call(struct remote_calls *r, struct remote_lane *l, const char *path, char *text)
{
	struct err e = ERR_INIT;

	l->text = text;
	if (text == NULL)
		return false;
	l->call = (struct http_call){.method = "POST",
				     .path = path,
				     .type = "application/json",
				     .body = text,
				     .body_n = strlen(text),
				     .patience = l == &r->input ? HTTP_PATIENT : HTTP_ORDINARY};
	if (api_to_box(&l->call, r->box, PORT_ENVD, NULL, &e) < 0 ||
	    http_start(&r->c->http, &l->call, &e) < 0) {
		drop(r, l);
		return false;
	}
	return true;
}

/* By hand: a tree of JSON would copy half a megabyte twice. */
static char *input_text(const struct remote_calls *r)
{
	size_t code = base64_size(r->chunk_n), room = code + 128;
	char *s = malloc(room);
	int n;

	if (s == NULL)
		return NULL;
	n = snprintf(s, room, "{\"process\":{\"pid\":%u},\"input\":{\"%s\":\"", r->pid,
		     r->tty ? "pty" : "stdin");
	base64_put(s + n, r->chunk, r->chunk_n);
	memcpy(s + (size_t)n + code, "\"}}", 4);
	return s;
}

static char *packed(json_t *o)
{
	char *s = o != NULL ? json_dumps(o, JSON_COMPACT) : NULL;

	json_decref(o);
	return s;
}

/* As envd spells it; NULL = not one that it takes. */
static const char *name_of(int sig)
{
	switch (sig) {
#define SIGNAL_WORD(sig, word)                                                                     \
	case sig:                                                                                  \
		return "SIGNAL_" #sig;
#include "wire/signal_words.def"
#undef SIGNAL_WORD
	default:
		return NULL;
	}
}

static bool next_control(struct remote_calls *r)
{
	json_t *o;

	if (r->sigs > 0) {
		o = json_pack("{s:{s:I},s:s}", "process", "pid", (json_int_t)r->pid, "signal",
			      name_of(r->sig[0]));
		memmove(r->sig, r->sig + 1, (ARRAY_LEN(r->sig) - 1) * sizeof(r->sig[0]));
		r->sigs--;
		return send_call(r, &r->control, "/process.Process/SendSignal", packed(o));
	}
	if (!r->resize)
		return false;
	r->resize = false;
	o = json_pack("{s:{s:I},s:{s:{s:i,s:i}}}", "process", "pid", (json_int_t)r->pid, "pty",
		      "size", "rows", (int)r->rows, "cols", (int)r->cols);
	return send_call(r, &r->control, "/process.Process/Update", packed(o));
}

static bool next_input(struct remote_calls *r)
{
	if (r->chunk_n > 0)
		return send_call(r, &r->input, "/process.Process/SendInput", input_text(r));
	if (!r->close)
		return false;
	r->close = false;
	return send_call(r, &r->input, "/process.Process/CloseStdin",
			 packed(json_pack("{s:{s:I}}", "process", "pid", (json_int_t)r->pid)));
}

static void input_ended(struct remote_calls *r)
{
	if (r->input.call.code != CURLE_OK || r->input.call.status != 200) { /* it reads no more */
		r->in_ended = true;
		r->close = false;
	}
	r->chunk_n = 0;
	drop(r, &r->input);
}

bool remote_calls_turn(struct remote_calls *r)
{
	bool begun = false;

	if (r->input.text != NULL && r->input.call.done)
		input_ended(r);
	if (r->control.text != NULL && r->control.call.done)
		drop(r, &r->control);
	if (!r->begun)
		return false;
	if (r->control.text == NULL)
		begun = next_control(r);
	if (r->input.text == NULL)
		begun = next_input(r) || begun;
	return begun;
}
