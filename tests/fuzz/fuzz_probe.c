/* A probe's report: what is accepted holds only what can be printed and compared. The input changes
 * bytes of a good report: u16 position and a value, three bytes each; one that begins with 0xff is
 * taken as it is. */
#include "unit/receipt/sample.h"

int LLVMFuzzerTestOneInput(const uint8_t *in, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *in, size_t n)
{
	static struct probe p, got;
	static const uint8_t pub[RECEIPT_PUB];
	struct receipt_diffs d;
	struct receipt_host h;
	char *text;
	int r;

	if (n > 0 && in[0] == 0xff)
		return probe_decode(in + 1, n - 1, &got, NULL) > PROBE_OF_INIT; /* never */
	sample_probe(&p);
	sample_host(&h);
	for (; n >= 3; in += 3, n -= 3)
		((uint8_t *)&p)[load_le16(in) % sizeof(p)] = in[2];
	r = probe_decode(&p.head, p.mounts <= PROBE_MOUNTS_MAX ? probe_init_size(&p) : PROBE_INIT_MAX,
			 &got, NULL);
	if (r < 0 || probe_decode(&p, PROBE_COMMAND_SIZE, &got, NULL) < 0)
		return 0;
	if (r != PROBE_OF_INIT)
		abort();
	receipt_compare(&h, &got, &d);
	text = sample_payload(&h, &got, &d, pub);
	if (text == NULL || strlen(text) < 1000)
		abort();
	for (const char *c = text; *c != '\0'; c++)
		if (*c < 0x20 || *c > 0x7e)
			abort();
	free(text);
	return 0;
}
