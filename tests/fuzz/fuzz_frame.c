/* frame_decode on arbitrary bytes, as either side, frame after frame. */
#include "wire/frame.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	enum frame_dir to;

	if (n == 0)
		return 0;
	to = p[0] & 1 ? FRAME_TO_AGENT : FRAME_TO_HOST;
	p++;
	n--;
	for (;;) {
		struct frame f;
		uint8_t again[FRAME_HDR];
		int used = frame_decode(p, n, to, &f);

		if (used <= 0)
			return 0;
		if ((size_t)used > n || (size_t)used != FRAME_HDR + f.len ||
		    f.payload != p + FRAME_HDR || f.chan >= CHAN_COUNT)
			abort();
		/* what was accepted is what frame_header writes */
		frame_header(again, (enum frame_type)f.type, f.stream, f.chan, f.flags, f.len);
		if (memcmp(again, p, FRAME_HDR) != 0)
			abort();
		p += used;
		n -= (size_t)used;
	}
}
