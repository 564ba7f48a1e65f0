/* A form in arbitrary pieces: the same events and bytes whatever the pieces are. The first byte
 * says how large they are. */
#include "parse/multipart.h"

#include <stdlib.h>
#include <string.h>

struct seen {
	size_t parts, ends, bytes;
	uint32_t sum;
	int err;
	bool over;
};

static struct seen run(const uint8_t *p, size_t n, size_t piece)
{
	static struct multipart m;
	struct seen s = {0};
	bool in_part = false;

	if (multipart_init(&m, "multipart/form-data; boundary=\"b-1\"") < 0)
		abort();
	while (n > 0 && s.err == 0) {
		size_t part = n < piece ? n : piece;
		enum multipart_event e;
		ssize_t took = multipart_step(&m, p, part, &e);

		if (took < 0) {
			s.err = (int)took;
			break;
		}
		if ((size_t)took > part || (took == 0 && e == MULTIPART_MORE))
			abort();
		if (e == MULTIPART_PART && (in_part || strlen(m.filename) >= MULTIPART_NAME_MAX))
			abort();
		if ((e == MULTIPART_DATA || e == MULTIPART_PART_END) && !in_part)
			abort();
		in_part = e == MULTIPART_PART || (in_part && e != MULTIPART_PART_END);
		s.parts += e == MULTIPART_PART;
		s.ends += e == MULTIPART_PART_END;
		s.over |= e == MULTIPART_END;
		for (size_t i = 0; e == MULTIPART_DATA && i < m.data_n; i++, s.bytes++)
			s.sum = s.sum * 31 + m.data[i];
		p += took;
		n -= (size_t)took;
	}
	return s;
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	struct seen a, b;

	if (n == 0)
		return 0;
	a = run(p + 1, n - 1, n);
	b = run(p + 1, n - 1, (size_t)p[0] % 16 + 1);
	if (a.err != b.err || a.parts != b.parts || a.ends != b.ends || a.bytes != b.bytes ||
	    a.sum != b.sum || a.over != b.over)
		abort();
	return 0;
}
