/* A question from a sandbox: the answer stays within its buffer, repeats the id, and is an answer. */
#include "gate/judge.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char rules[] = "allow x.allowed.test:443\ndns aaaa 1\nallow *.wild.test:80\nallow **.deep.test:1-9\n";
	struct judge *j = NULL;
	struct resolve_result res = {.err = size % 2 == 0 ? 0 : ENOENT};
	struct judge_dns d;
	uint8_t out[512];
	size_t n;

	if (judge_new(rules, sizeof(rules) - 1, &j, NULL) < 0)
		abort();
	n = judge_dns(j, data, size, out, sizeof(out), &d);
	if (d.wait) { /* its name is one of the rules' */
		if (n != 0 || d.denied || strcmp(d.name, "x.allowed.test") != 0)
			abort();
		n = judge_dns_resolved(j, data, size, &res, out, sizeof(out), &d);
		if (d.wait || n == 0)
			abort();
	}
	if (n > sizeof(out) || (n > 0 && (n < 12 || size < 12 || memcmp(out, data, 2) != 0 || (out[2] & 0x80) == 0)))
		abort();
	if (d.denied && (d.asked_n > 255 || out[7] != 0))
		abort(); /* a refusal that carries an answer */
	judge_free(j);
	return 0;
}
