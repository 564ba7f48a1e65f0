/* The rules' text: what is accepted permits nothing below the floor unless it names the range. */
#include "gate/judge.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct net_range ranges[NET_RANGES_MAX];
	struct resolve_addr meta = {.a = {169, 254, 169, 254}}, lo = {.a = {127, 0, 0, 1}};
	struct judge_dest d = {.named = true, .port = 443, .name = "x.allowed.test"};
	struct judge_verdict v;
	const char *why = NULL;
	struct judge *j = NULL;

	if (size > 65536 || judge_new((const char *)data, size, &j, NULL) < 0)
		return 0;
	(void)judge_ranges(j, ranges, NET_RANGES_MAX);
	judge_decide(j, &d, &v);
	if (v.allow && (judge_addr(j, &d, &v, &meta, false, &why) || judge_addr(j, &d, &v, &lo, false, &why)))
		abort();
	judge_free(j);
	return 0;
}
