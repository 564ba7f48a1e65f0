#include "sys/fds.h"

#include "sys/raw.h"

#include <sys/syscall.h>

void fds_keep_only(int *fds, size_t n)
{
	int next = 0;

	for (size_t i = 1; i < n; i++)
		for (size_t k = i; k > 0 && fds[k - 1] > fds[k]; k--) {
			int t = fds[k];

			fds[k] = fds[k - 1];
			fds[k - 1] = t;
		}
	for (size_t i = 0; i < n; i++) {
		if (fds[i] > next)
			(void)raw_call(SYS_close_range, next, fds[i] - 1, 0, 0, 0);
		if (fds[i] >= next)
			next = fds[i] + 1;
	}
	(void)raw_call(SYS_close_range, next, ~0u, 0, 0, 0);
}
