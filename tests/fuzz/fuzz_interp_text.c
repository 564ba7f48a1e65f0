/* What a program prints, cut into pieces as the first byte says: every event is a line of JSON in
 * ASCII, and no byte of plain text is lost. */
#include "interp/interp.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static size_t check(struct buf *b)
{
	size_t plain = 0;
	json_t *o;

	if (b->len == 0)
		return 0;
	for (size_t i = 0; i < b->len; i++)
		if (buf_head(b)[i] > 0x7e || (buf_head(b)[i] < 0x20 && i + 1 < b->len))
			abort();
	o = json_loadb((const char *)buf_head(b), b->len, JSON_ALLOW_NUL, NULL);
	if (o == NULL || buf_head(b)[b->len - 1] != '\n')
		abort();
	for (size_t i = 0; i < json_string_length(json_object_get(o, "text")); i++)
		plain += (uint8_t)json_string_value(json_object_get(o, "text"))[i] < 0x80;
	json_decref(o);
	buf_consume(b, b->len);
	return plain;
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	struct interp_text t = {.part_n = 0};
	size_t step = n > 0 ? 1 + p[0] : 1, plain = 0, want = 0;
	struct buf b;

	buf_init(&b, 1024 * 1024);
	for (size_t i = 1; i < n; i += step) {
		size_t m = n - i < step ? n - i : step;

		if (interp_text(&t, "stdout", p + i, m, &b) < 0)
			abort();
		plain += check(&b);
	}
	if (interp_text_end(&t, "stdout", &b) < 0)
		abort();
	plain += check(&b);
	for (size_t i = 1; i < n; i++)
		want += p[i] < 0x80;
	if (plain != want)
		abort();
	buf_done(&b);
	return 0;
}
