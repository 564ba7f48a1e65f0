#pragma once
/* clone3(2) into a function, for CLONE_VM, where returning from the call in the child is not possible. */
#include <linux/sched.h>
#include <sys/types.h>

typedef void (*clone_fn)(const void *arg); /* must not return */

/*
 * clone3 with args->stack and stack_size set (16-byte aligned top); fn(arg) runs in the child on that
 * stack. Returns the pid or -errno. x86-64.
 */
pid_t sys_clone3_call(struct clone_args *args, clone_fn fn, const void *arg);
