/* A probe's report: what is accepted holds only what can be printed and compared. The input changes
 * bytes of a good report: u16 position and a value, three bytes each; one that begins with 0xff is
 * taken as it is, one that begins with 0xfe is what the host expects, against a good report. */
#include "unit/receipt/sample.h"
#include "wire/probe_compare.h"
#include "wire/probe_expect.h"

static void expectation(const uint8_t *in, size_t n)
{
	static struct probe p;
	struct probe_expect x;
	struct probe_diffs d;

	if (probe_expect_read(in, n, &x) < 0)
		return;
	sample_probe(&p);
	d.n = 0;
	probe_compare(&x, &p, &d);
	for (uint32_t i = 0; i < MIN(d.n, (uint32_t)PROBE_DIFFS_MAX); i++)
		if (d.d[i].wall[0] == '\0' || d.d[i].found[0] == '\0')
			abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *in, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *in, size_t n)
{
	static struct probe p;
	static const uint8_t pub[RECEIPT_PUB];
	struct probe_diffs d;
	struct receipt_host h;
	char *text;

	sample_probe(&p);
	sample_host(&h);
	if (n > 0 && in[0] == 0xfe) {
		expectation(in + 1, n - 1);
		return 0;
	}
	if (n > 0 && in[0] == 0xff) {
		memcpy(&p, in + 1, MIN(n - 1, sizeof(p)));
		if (probe_check(&p, n - 1, NULL) < 0)
			return 0;
	} else {
		for (; n >= 3; in += 3, n -= 3)
			((uint8_t *)&p)[load_le16(in) % sizeof(p)] = in[2];
		if (probe_check(&p, p.mounts <= PROBE_MOUNTS_MAX ? probe_size(&p) : sizeof(p), NULL) < 0)
			return 0;
	}
	receipt_compare(&h, &p, &d);
	text = sample_payload(&h, &p, &d, pub);
	if (text == NULL || strlen(text) < 1000)
		abort();
	for (const char *c = text; *c != '\0'; c++)
		if (*c < 0x20 || *c > 0x7e)
			abort();
	free(text);
	return 0;
}
