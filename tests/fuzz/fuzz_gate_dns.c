/* A question from a sandbox: the answer stays within its buffer, repeats the id, and is an answer; what it holds stands for the
 * name that was asked for, and for no other. */
#include "gate/judge.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define RULES "allow x.allowed.test:443\ndns aaaa 1\nallow *.wild.test:80\nallow **.deep.test:1-9\n"

static const struct resolve_result good = {
    .n = 4,
    .addr = {{.a = {93, 184, 216, 34}}, {.a = {127, 0, 0, 1}}, {.v6 = true, .a = {0x2a, 0, 0x14, 0x50}}, {.a = {10, 0, 0, 1}}}};
static const struct resolve_result none = {.err = ENOENT};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void ask(const char *rules, bool pinned, const uint8_t *q, size_t size)
{
	const struct resolve_result *res = size % 2 == 0 ? &good : &none;
	const struct resolve_addr *at = &good.addr[0];
	struct judge *j = NULL;
	struct judge_dest d;
	struct judge_dns a;
	uint8_t out[512];
	size_t n;

	if (judge_new(rules, strlen(rules), &j, NULL) < 0)
		abort();
	n = judge_dns(j, q, size, out, sizeof(out), &a);
	if (a.wait) { /* its name is one of the rules' */
		if (n != 0 || a.denied || (!pinned && strcmp(a.name, "x.allowed.test") != 0))
			abort();
		n = judge_dns_resolved(j, q, size, res, out, sizeof(out), &a);
		if (a.wait || n == 0)
			abort();
	}
	if (n > sizeof(out) || (n > 0 && (n < 12 || size < 12 || memcmp(out, q, 2) != 0 || (out[2] & 0x80) == 0)))
		abort();
	if (a.denied && (a.asked_n > 255 || out[7] != 0))
		abort(); /* a refusal that carries an answer */
	if (judge_dest(j, at, 443, &d) && d.named && (!pinned || strcmp(d.name, a.name) != 0))
		abort();
	if (judge_dest(j, &good.addr[1], 443, &d) && d.named)
		abort(); /* nothing stands for loopback */
	judge_free(j);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	ask(RULES, false, data, size);
	ask(RULES "dns pinned 1\n", true, data, size);
	return 0;
}
