/* What a proxy answers to CONNECT. What it means does not depend on how much of it is there, and a tunnel begins behind an empty
 * line of a head that says so. */
#include "gate/judge.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint32_t status = 7, other;
	ssize_t n = judge_proxy_answer(data, size, &status);

	if (n > (ssize_t)size || n > PROXY_ANSWER_MAX || (n < 0 && n != -EBADMSG && n != -ECONNREFUSED))
		abort();
	if ((n > 0 && (status < 200 || status > 299)) || (n == -ECONNREFUSED && (status < 300 || status > 599)))
		abort();
	if (n > 0 && (size < 12 || memcmp(data, "HTTP/1.", 7) != 0 || memcmp(data + n - 4, "\r\n\r\n", 4) != 0))
		abort();
	if (n > 0 && memmem(data, (size_t)n - 1, "\r\n\r\n", 4) != NULL)
		abort(); /* some of the tunnel was taken for the head */
	for (size_t cut = 0; n > 0 && cut < (size_t)n && cut < 300; cut++)
		if (judge_proxy_answer(data, cut, &other) != 0)
			abort(); /* split there it was something else */
	if (n == 0 && size >= PROXY_ANSWER_MAX)
		abort(); /* it would wait for ever */
	return 0;
}
