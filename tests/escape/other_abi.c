/*
 * Goes around a filter of x86-64 calls by the kernel's other two call tables.
 *
 * group: filter
 * tries: make refused calls through the i386 table (int 0x80) and as x32 calls
 * control: guest
 * no-control: x32-getpid neither this kernel nor Debian's has x32; x32-unshare likewise
 */
#include <sched.h>

#include "attack.h"

static long call32(long nr, long a)
{
	long r;

	__asm__ volatile("int $0x80" : "=a"(r) : "a"(nr), "b"(a), "c"(0) : "memory", "r8", "r9", "r10", "r11");
	r = (int)r;
	if (r < 0 && r > -4096) {
		errno = (int)-r;
		r = -1;
	}
	return r;
}

static long unshare32(void *arg)
{
	(void)arg;
	return call32(310, CLONE_NEWUSER);
}

static long getpid32(void *arg)
{
	(void)arg;
	return call32(20, 0);
}

static long keyctl32(void *arg)
{
	(void)arg;
	return call32(288, 1); /* join a session keyring */
}

static long unshare_x32(void *arg)
{
	(void)arg;
	return syscall(0x40000000 | SYS_unshare, CLONE_NEWUSER);
}

static long getpid_x32(void *arg)
{
	(void)arg;
	return syscall(0x40000000 | SYS_getpid);
}

int main(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	tried("i386-getpid", in_child(getpid32, NULL));
	tried("i386-unshare", in_child(unshare32, NULL));
	tried("i386-keyctl", in_child(keyctl32, NULL));
	tried("x32-getpid", in_child(getpid_x32, NULL));
	tried("x32-unshare", in_child(unshare_x32, NULL));
	return ended();
}
