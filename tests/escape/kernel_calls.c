/*
 * Calls the parts of the kernel that exploits like best, and those that administer the machine.
 *
 * group: kernel
 * tries: use io_uring, bpf, perf, userfaultfd, fanotify, kcmp and the calls for modules, kexec, reboot, swap, quota, ports
 * control: guest
 */
#include <linux/bpf.h>
#include <linux/io_uring.h>
#include <linux/perf_event.h>
#include <sys/fanotify.h>
#include <sys/io.h>

#include "attack.h"

/* What would change the guest is called with arguments it must reject: any answer but a refusal means it got there. */
static long reached(long r)
{
	return r < 0 && (errno == EPERM || errno == ENOSYS) ? -1 : 0;
}

int main(int argc, char **argv)
{
	struct io_uring_params ring = {0};
	union bpf_attr map = {.map_type = BPF_MAP_TYPE_ARRAY, .key_size = 4, .value_size = 4, .max_entries = 1};
	struct perf_event_attr perf = {.type = PERF_TYPE_SOFTWARE, .size = sizeof(perf), .config = PERF_COUNT_SW_CPU_CLOCK};
	pid_t me = getpid();

	(void)argc;
	(void)argv;
	tried("io_uring", syscall(SYS_io_uring_setup, 1, &ring));
	tried("bpf", syscall(SYS_bpf, BPF_MAP_CREATE, &map, sizeof(map)));
	tried("perf", syscall(SYS_perf_event_open, &perf, 0, -1, -1, 0));
	tried("userfaultfd", syscall(SYS_userfaultfd, O_CLOEXEC));
	tried("fanotify", fanotify_init(FAN_CLASS_NOTIF, O_RDONLY));
	tried("kcmp", syscall(SYS_kcmp, me, me, 0, 0, 1));
	tried("iopl", iopl(3));
	tried("ioperm", ioperm(0x80, 1, 1));
	tried("module", reached(syscall(SYS_init_module, "", 0, "")));
	tried("module-file", reached(syscall(SYS_finit_module, -1, "", 0)));
	tried("module-remove", reached(syscall(SYS_delete_module, "escape", O_NONBLOCK)));
	tried("kexec", reached(syscall(SYS_kexec_load, 0, 1, 1, 0)));
	tried("reboot", reached(syscall(SYS_reboot, 0, 0, 0, NULL)));
	tried("swap", reached(syscall(SYS_swapon, "/escape", 0)));
	tried("acct", reached(syscall(SYS_acct, "/escape")));
	tried("quota", reached(syscall(SYS_quotactl, 0x80000100, "/escape", 0, NULL)));
	return ended();
}
