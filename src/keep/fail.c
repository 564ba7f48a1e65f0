#include "base/num.h"
#include "wire/envelope.h"
#include "keep/priv.h"
#include "keep/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Failures in the shape the route's clients read: Connect's, in a status or at the end of a stream,
 * or a status with its number as the code. */

static const struct {
	const char *word;
	unsigned status;
} codes[] = {
#define CODE(id, word, status) [FAIL_##id] = {word, status},
#include "keep/codes.def"
#undef CODE
};

const char *fail_word(enum fail code) { return codes[code].word; }

/* Text from paths may be anything: what is no UTF-8 is not told. */
static json_t *words(const char *s)
{
	json_t *o = json_string(s);

	return o != NULL ? o : json_string("the reason has no UTF-8 spelling");
}

static void end_stream(struct talk *t, json_t *error)
{
	static const struct call_field f[] = {{"content-type", "application/connect+json"}};
	struct buf text, b;

	buf_init(&text, CALL_PIECE_MAX / 2);
	buf_init(&b, CALL_PIECE_MAX);
	if (!t->head_sent)
		talk_reply(t, 200, f, 1);
	if (text_put_value(&text, json_pack("{s:o}", "error", error)) < 0 ||
	    envelope_put(&b, ENVELOPE_END, buf_head(&text), text.len) < 0) {
		talk_cut(t);
	} else {
		talk_send(t, buf_head(&b), b.len);
		talk_end(t);
	}
	buf_done(&b);
	buf_done(&text);
}

static void tell(struct talk *t, unsigned status, json_t *code, const char *msg)
{
	json_t *o = json_pack("{s:o, s:o}", "code", code, "message", words(msg));

	if (t->route != NULL && t->route->shape >= SHAPE_STREAM && o != NULL)
		end_stream(t, o);
	else if (t->head_sent)
		talk_cut(t), json_decref(o);
	else
		talk_json(t, status, o);
}

void fail(struct talk *t, enum fail code, const char *fmt, ...)
{
	bool rpc = t->route != NULL && t->route->shape >= SHAPE_UNARY;
	char msg[512];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(msg, sizeof(msg), fmt, ap);
	va_end(ap);
	tell(t, codes[code].status,
	     rpc ? json_string(codes[code].word) : json_integer((json_int_t)codes[code].status),
	     msg);
}

void fail_status(struct talk *t, unsigned status, const char *fmt, ...)
{
	char msg[512];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(msg, sizeof(msg), fmt, ap);
	va_end(ap);
	if (t->head_sent)
		talk_cut(t);
	else
		talk_json(t, status,
			  json_pack("{s:i, s:o}", "code", (int)status, "message", words(msg)));
}
