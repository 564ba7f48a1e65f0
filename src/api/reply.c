#include "api/request.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Building answers. One that cannot be built for want of memory leaves none: the server then cuts the connection. */

static void set(struct request *q, unsigned status, struct MHD_Response *r)
{
	if (q->answer != NULL || q->queued) {
		if (r != NULL)
			MHD_destroy_response(r);
		return;
	}
	if (r == NULL)
		q->cut = true;
	q->answer = r;
	q->status = status;
	request_wake(q);
}

void reply_status(struct request *q, unsigned status)
{
	set(q, status, MHD_create_response_from_buffer(0, NULL, MHD_RESPMEM_PERSISTENT));
}

void reply_text(struct request *q, unsigned status, const char *type, const char *text, size_t n)
{
	void *p;

	memcpy(&p, &text, sizeof(p)); /* it is copied, so only read */
	set(q, status, MHD_create_response_from_buffer(n, p, MHD_RESPMEM_MUST_COPY));
	reply_field(q, "Content-Type", type);
}

void reply_json(struct request *q, unsigned status, json_t *body)
{
	char *text = body != NULL ? json_dumps(body, JSON_COMPACT) : NULL;

	json_decref(body);
	if (text == NULL) {
		set(q, 500, NULL);
		return;
	}
	reply_text(q, status, "application/json", text, strlen(text));
	free(text);
}

/* What a client wrote may be in it, also cut within a character: JSON takes UTF-8 alone. */
static json_t *words(char *message)
{
	json_t *s = json_string(message);

	for (char *p = message; s == NULL && *p != '\0'; p++)
		if ((unsigned char)*p >= 0x80)
			*p = '?';
	return s != NULL ? s : json_string(message);
}

void reply_error(struct request *q, unsigned status, const char *fmt, ...)
{
	char message[512];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(message, sizeof(message), fmt, ap);
	va_end(ap);
	reply_json(q, status, json_pack("{s:i,s:o}", "code", (int)status, "message", words(message)));
	if (status == 429)
		reply_field(q, "Retry-After", "1");
}

void reply_box_error(struct request *q, unsigned status, const char *id, unsigned port, const char *message)
{
	json_t *o = json_pack("{s:s,s:s,s:i}", "sandboxId", id, "message", message, "code", (int)status);

	if (o != NULL && port != 0 && json_object_set_new(o, "port", json_integer(port)) < 0) {
		json_decref(o);
		o = NULL;
	}
	reply_json(q, status, o);
	if (q->cors)
		reply_field(q, "Access-Control-Allow-Origin", "*");
}

void reply_field(struct request *q, const char *name, const char *value)
{
	if (q->answer != NULL)
		(void)MHD_add_response_header(q->answer, name, value);
}
