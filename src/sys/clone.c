#include "sys/clone.h"

#include <stddef.h>
#include <sys/syscall.h>

pid_t sys_clone3_call(struct clone_args *args, clone_fn fn, const void *arg)
{
	register long rax __asm__("rax") = SYS_clone3;
	register struct clone_args *rdi __asm__("rdi") = args;
	register size_t rsi __asm__("rsi") = sizeof(*args);
	register clone_fn r8 __asm__("r8") = fn;
	register const void *r9 __asm__("r9") = arg;

	/* the kernel keeps every register but rcx and r11, in the child too */
	__asm__ volatile("syscall\n\t"
			 "test %%rax, %%rax\n\t"
			 "jnz 1f\n\t"
			 "xor %%ebp, %%ebp\n\t"
			 "mov %%r9, %%rdi\n\t"
			 "call *%%r8\n\t"
			 "ud2\n"
			 "1:"
			 : "+r"(rax)
			 : "r"(rdi), "r"(rsi), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory", "cc");
	return (pid_t)rax;
}
