/* The first bytes of a client; the first one picks what they should be. What is accepted stays accepted with more behind. */
#include "gate/judge.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct judge_dest d = {.named = true, .port = 80, .name = "api.allowed.test"};
	const char *reason = NULL;
	struct judge_verdict v = {.allow = true};
	struct judge_hello h;
	enum judge_check c;
	int whole;

	if (size < 1)
		return 0;
	v.ech_allow = (data[0] & 0x80) != 0;
	c = (enum judge_check)(data[0] % 6);
	whole = judge_first(c, &v, &d, data + 1, size - 1, &reason, &h);
	if (reason == NULL || strlen(h.sni) > 255 || strlen(h.alpn) > 63)
		abort();
	for (size_t n = 0; n < size - 1 && n < 300; n++)
		if (judge_first(c, &v, &d, data + 1, n, &reason, &h) < 0 && whole > 0)
			abort(); /* split at n it was refused */
	return 0;
}
