#include "sys/pages.h"

#include "sys/raw.h"

#include <stdint.h>

/* linux/mman.h; Debian 12's C library has them, musl does not */
enum { POPULATE_READ = 22, POPULATE_WRITE = 23, PAGE = 4096 };

/* By the linker: the first byte of the program and the one after its code. */
extern const char __executable_start[], etext[];

static void populate(uintptr_t from, uintptr_t to, int how)
{
	from &= ~(uintptr_t)(PAGE - 1);
	to = (to + PAGE - 1) & ~(uintptr_t)(PAGE - 1);
	(void)raw_call(SYS_madvise, (long)from, (long)(to - from), how, 0, 0);
}

void pages_make(void *p, size_t n) { populate((uintptr_t)p, (uintptr_t)p + n, POPULATE_WRITE); }

void pages_make_code(void)
{
	populate((uintptr_t)__executable_start, (uintptr_t)etext, POPULATE_READ);
}

/* The kernel makes a new program's stack 128 KiB larger than what is on it (execve(2)). */
void pages_make_stack(size_t n)
{
	uintptr_t here = (uintptr_t)__builtin_frame_address(0);

	populate(here - n, here, POPULATE_WRITE);
}
