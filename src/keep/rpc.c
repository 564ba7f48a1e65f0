#include "keep/rpc.h"

#include "base/base64.h"
#include "wire/envelope.h"
#include "keep/priv.h"
#include "keep/text.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Requests are a client's, of any content. */

enum { KEEPALIVE_S = 90, KEEPALIVE_MAX_S = 3600 };

json_t *rpc_get(const json_t *o, const char *camel, const char *snake)
{
	json_t *v = json_object_get(o, camel);

	if (v == NULL && snake != NULL)
		v = json_object_get(o, snake);
	return json_is_null(v) ? NULL : v;
}

static bool digits(const char *s, size_t max, uint64_t *ret)
{
	size_t n = strspn(s, "0123456789");

	if (n == 0 || n > max || s[n] != '\0')
		return false;
	*ret = strtoull(s, NULL, 10);
	return true;
}

bool rpc_u32(const json_t *v, uint32_t *ret)
{
	uint64_t n = 0;

	if (json_is_integer(v)) {
		if (json_integer_value(v) < 0)
			return false;
		n = (uint64_t)json_integer_value(v);
	} else if (!json_is_string(v) || !digits(json_string_value(v), 10, &n)) {
		return false;
	}
	*ret = (uint32_t)n;
	return n <= UINT32_MAX;
}

const char *rpc_text(const json_t *v)
{
	const char *s = json_string_value(v);

	return s != NULL && strlen(s) == json_string_length(v) ? s : NULL;
}

bool rpc_strings(const json_t *v)
{
	const char *name;
	/* NOLINTNEXTLINE(performance-no-int-to-ptr): jansson walks no const object */
	json_t *o = (json_t *)(uintptr_t)v;
	json_t *e;
	size_t i;

	if (json_is_array(v)) {
		json_array_foreach(o, i, e) if (rpc_text(e) == NULL) return false;
		return true;
	}
	json_object_foreach(o, name, e) if (rpc_text(e) == NULL || name[0] == '\0' ||
					    strchr(name, '=') != NULL) return false;
	return json_is_object(v);
}

uint8_t *rpc_bytes(const json_t *v, size_t *ret_n)
{
	size_t n = json_string_length(v);
	uint8_t *p = json_is_string(v) ? malloc(n + 1) : NULL;
	ssize_t got = p != NULL ? base64_decode(json_string_value(v), n, p, n + 1) : -EINVAL;

	if (got < 0) {
		free(p);
		return NULL;
	}
	*ret_n = (size_t)got;
	return p;
}

void rpc_empty(struct talk *t) { talk_json(t, 200, json_object()); }

void stream_begin(struct talk *t)
{
	static const struct call_field f[] = {{"content-type", "application/connect+json"}};

	talk_reply(t, 200, f, 1);
}

void stream_raw(struct talk *t, const void *p, size_t n)
{
	uint8_t header[ENVELOPE_HEADER] = {0, (uint8_t)(n >> 24), (uint8_t)(n >> 16),
					   (uint8_t)(n >> 8), (uint8_t)n};

	talk_send(t, header, sizeof(header));
	talk_send(t, p, n);
}

void stream_json(struct talk *t, json_t *o)
{
	struct buf b;

	buf_init(&b, SIZE_MAX / 2);
	if (text_put_value(&b, o) < 0)
		talk_cut(t);
	else
		stream_raw(t, buf_head(&b), b.len);
	buf_done(&b);
}

void stream_close(struct talk *t)
{
	static const uint8_t end[] = {ENVELOPE_END, 0, 0, 0, 2, '{', '}'};

	talk_send(t, end, sizeof(end));
	talk_end(t);
}

uint64_t stream_timeout_ms(const struct talk *t)
{
	const char *s = call_find(&t->head, "connect-timeout-ms");
	uint64_t ms = 0;

	return s != NULL && digits(s, 10, &ms) ? ms : 0; /* ten digits are the protocol's limit */
}

uint64_t stream_keepalive_ms(const struct talk *t)
{
	const char *s = call_find(&t->head, "keepalive-ping-interval");
	uint64_t n = 0;

	if (s == NULL || !digits(s, 10, &n) || n == 0)
		n = KEEPALIVE_S;
	return (n < KEEPALIVE_MAX_S ? n : KEEPALIVE_MAX_S) * 1000;
}
