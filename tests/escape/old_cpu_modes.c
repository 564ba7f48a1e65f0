/*
 * Asks for what old programs needed and exploits like: executable data everywhere, 16-bit segments.
 *
 * group: filter
 * tries: set READ_IMPLIES_EXEC and install 16-bit and data segments (modify_ldt)
 * control: plain
 */
#include <asm/ldt.h>
#include <sys/personality.h>

#include "attack.h"

static long implies_exec(void *arg)
{
	(void)arg;
	return personality(READ_IMPLIES_EXEC);
}

/* The call's argument is 32 bits: a filter that compares 64 lets this one through. */
static long implies_exec_wide(void *arg)
{
	(void)arg;
	return syscall(SYS_personality, 0x100000000UL | READ_IMPLIES_EXEC);
}

static long segment(void *arg)
{
	struct user_desc d = {.entry_number = 0, .limit = 0xfffff, .seg_32bit = *(unsigned *)arg & 1, .limit_in_pages = 1,
			      .useable = 1};

	return (int)syscall(SYS_modify_ldt, 1, &d, sizeof(d));
}

int main(int argc, char **argv)
{
	unsigned wide = 1, narrow = 0;

	(void)argc;
	(void)argv;
	tried("exec", in_child(implies_exec, NULL));
	tried("exec-wide", in_child(implies_exec_wide, NULL));
	tried("ldt-32", in_child(segment, &wide));
	tried("ldt-16", in_child(segment, &narrow));
	return ended();
}
