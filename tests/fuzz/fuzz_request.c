/* msg_next, record_next, hello_decode and the RESULT reader on arbitrary bytes. */
#include "session/session_priv.h"
#include "wire/request.h"

#include <stdlib.h>
#include <string.h>

static void walk(struct msg_reader r)
{
	struct msg_item it;
	uint64_t sum = 0;
	char s[64];

	while (msg_next(&r, &it) > 0) {
		for (size_t i = 0; i < it.len; i++)
			sum += it.data[i];
		if (msg_copy(&it, s, sizeof(s)) == 0 && s[it.len] != '\0')
			abort();
	}
	if (sum == UINT64_MAX) /* keeps the reads */
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	struct stream_result res;
	struct msg_reader r;
	uint32_t features;
	int used;

	walk(msg_reader(p, n));
	(void)hello_decode(p, n, &features);
	if (result_decode(p, n, &res) == 0 &&
	    (memchr(res.text, '\0', sizeof(res.text)) == NULL || res.how > HOW_ERROR ||
	     (res.how == HOW_ERROR && res.err <= 0)))
		abort();
	while ((used = record_next(p, n, &r)) > 0) {
		walk(r);
		p += used;
		n -= (size_t)used;
	}
	return 0;
}
