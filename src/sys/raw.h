#pragma once
/*
 * System calls without the C library: no errno, no cancellation point, nothing touched but registers.
 * For a process that shares its memory, and so its errno, with another one that runs. Each returns
 * what the kernel returns: a result or -errno. x86-64 (syscall(2)).
 */
#include <fcntl.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/syscall.h>

static inline long raw_call6(long nr, long a, long b, long c, long d, long e, long f)
{
	register long rax __asm__("rax") = nr;
	register long rdi __asm__("rdi") = a;
	register long rsi __asm__("rsi") = b;
	register long rdx __asm__("rdx") = c;
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = f;

	__asm__ volatile("syscall"
			 : "+r"(rax)
			 : "r"(rdi), "r"(rsi), "r"(rdx), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return rax;
}

static inline long raw_call(long nr, long a, long b, long c, long d, long e)
{
	return raw_call6(nr, a, b, c, d, e, 0);
}

static inline int raw_open(const char *path, int flags)
{
	return (int)raw_call(SYS_openat, AT_FDCWD, (long)path, flags | O_CLOEXEC, 0, 0);
}
static inline long raw_read(int fd, void *p, size_t n) { return raw_call(SYS_read, fd, (long)p, (long)n, 0, 0); }
static inline long raw_write(int fd, const void *p, size_t n)
{
	return raw_call(SYS_write, fd, (long)p, (long)n, 0, 0);
}
/* To a socket, without SIGPIPE when its other end is gone. */
static inline long raw_send(int fd, const void *p, size_t n)
{
	return raw_call6(SYS_sendto, fd, (long)p, (long)n, MSG_NOSIGNAL, 0, 0);
}
static inline void raw_close(int fd) { (void)raw_call(SYS_close, fd, 0, 0, 0, 0); }
