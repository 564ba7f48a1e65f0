/* The pack decoder on arbitrary bytes in arbitrary pieces; what it accepts must survive the writer. */
#include "base/num.h"
#include "wire/pack.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	static struct pack_decoder d;
	struct buf again = {.max = 64 * 1024};
	uint64_t size = 0, have = 0, len;
	const uint8_t *data;
	size_t step;
	int ev = 0;

	if (n == 0)
		return 0;
	step = (size_t)p[0] + 1;
	p++;
	n--;
	pack_decoder_init(&d);
	while (n > 0 && ev >= 0) {
		size_t k = MIN(n, step);

		if (pack_feed(&d, p, k) < 0)
			abort(); /* always fits after draining */
		p += k;
		n -= k;
		while ((ev = pack_next(&d, &data, &len)) > 0) {
			if (ev == PACK_EV_ENTRY) {
				size = d.entry.size;
				have = 0;
				if (!pack_path_ok(d.entry.path, strlen(d.entry.path)) ||
				    (d.entry.mode & ~0777) != 0)
					abort();
				(void)pack_link_ok(d.entry.path, d.entry.target);
				if (pack_put_entry(&again, &d.entry) < 0)
					abort();
				buf_consume(&again, again.len);
			} else if (ev == PACK_EV_DATA || ev == PACK_EV_HOLE) {
				have += len;
				if (len == 0 || have > size)
					abort();
				if (ev == PACK_EV_DATA && (data == NULL || len > sizeof(d.in) + PACK_BUF_MAX))
					abort();
			}
		}
	}
	if (ev < 0 && pack_next(&d, &data, &len) != -EPROTO)
		abort();
	pack_decoder_done(&d);
	buf_done(&again);
	return 0;
}
