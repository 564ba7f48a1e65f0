/* Files that claim to be receipts. Taken as it is, an input must be refused: nobody has signed it.
 * Taken as a payload and signed here it reaches the JSON; whatever is accepted then says nothing
 * unprintable. */
#include "unit/receipt/sample.h"

#include <stdlib.h>

static const uint8_t seed[RECEIPT_SEED] = "0123456789abcdef0123456789abcde";

static void check_text(const char *s)
{
	for (; *s != '\0'; s++)
		if (*s < 0x20 || *s > 0x7e)
			abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	static const uint8_t nobody[RECEIPT_PUB] = {9};
	static struct receipt_facts f;
	struct receipt_key key;
	struct buf b = {.max = RECEIPT_MAX};

	if (receipt_verify(p, n, nobody, &f, NULL) == 0)
		abort();
	if (receipt_key_from_seed(seed, &key) < 0)
		abort();
	if (sample_seal((const char *)p, n, &key, &b) == 0 &&
	    receipt_verify(buf_head(&b), b.len, key.pub, &f, NULL) == 0) {
		check_text(f.id);
		check_text(f.image);
		check_text(f.tier);
		if (f.enforced != (f.differences == 0) || f.gaps > RECEIPT_GAPS_MAX ||
		    f.differences > PROBE_DIFFS_MAX)
			abort();
	}
	buf_done(&b);
	return 0;
}
