#include "base/num.h"
#include "seccomp_filters.h"
#include "tier/container/setup_priv.h"

#include <errno.h>
#include <linux/capability.h>
#include <linux/securebits.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

/*
 * The last steps before the agent: what PID 1 may still do. It keeps the capabilities to start and
 * signal processes of other ids of the sandbox, as ambient ones with every secure bit locked, so that
 * the bounding set is already empty and uid 0 means nothing to execve (capabilities(7)). What it
 * starts for the caller drops even those.
 */

static uint64_t agent_caps(const struct spec *spec)
{
	uint64_t caps = 1u << CAP_SETUID | 1u << CAP_SETGID | 1u << CAP_KILL | 1u << CAP_CHOWN;

	if (spec->root_caps == ROOT_CAPS_FILES)
		caps |= 1u << CAP_DAC_OVERRIDE | 1u << CAP_FOWNER | 1u << CAP_FSETID;
	return caps;
}

static int drop_caps(uint64_t keep)
{
	struct __user_cap_header_struct h = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct d[2] = {{0}};
	const unsigned long bits = SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_NO_SETUID_FIXUP_LOCKED |
				   SECBIT_KEEP_CAPS_LOCKED | SECBIT_NO_CAP_AMBIENT_RAISE |
				   SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED;

	/* inheritable first: nothing outside the bounding set can be made so. SETPCAP is for the steps below. */
	d[0].permitted = d[0].effective = (uint32_t)keep | 1u << CAP_SETPCAP;
	d[0].inheritable = (uint32_t)keep;
	if (syscall(SYS_capset, &h, d) < 0)
		return -errno;
	for (unsigned long cap = 0; cap < 32; cap++)
		if (((keep >> cap) & 1) != 0 && prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, cap, 0, 0) < 0)
			return -errno;
	for (unsigned long cap = 0; cap < 64; cap++) {
		if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0) {
			if (errno == EINVAL && cap > CAP_CHECKPOINT_RESTORE - 1)
				break; /* past the kernel's last one */
			return -errno;
		}
	}
	if (prctl(PR_SET_SECUREBITS, bits, 0, 0, 0) < 0)
		return -errno;
	d[0].permitted = d[0].effective = (uint32_t)keep;
	return syscall(SYS_capset, &h, d) < 0 ? -errno : 0;
}

static int lower(int what, rlim_t soft, rlim_t hard)
{
	struct rlimit old, l;

	if (syscall(SYS_prlimit64, 0, what, NULL, &old) < 0)
		return -errno;
	l.rlim_max = MIN(hard, old.rlim_max);
	l.rlim_cur = MIN(soft, l.rlim_max);
	return syscall(SYS_prlimit64, 0, what, &l, NULL) < 0 ? -errno : 0;
}

int setup_rlimits(const struct spec *spec, bool count_pids, char *why, size_t size)
{
	int r;

	(void)snprintf(why, size, "resource limits");
	/* 1, not 0: where the host pipes core dumps to a program, only 1 keeps the kernel from starting it
	 * (core(5)); and no file is that small */
	r = lower(RLIMIT_CORE, 1, 1);
	if (r == 0)
		r = lower(RLIMIT_NOFILE, 1024, 65536);
	if (r == 0)
		r = lower(RLIMIT_RTPRIO, 0, 0);
	if (r == 0)
		r = lower(RLIMIT_MEMLOCK, 8u << 20, 8u << 20);
	if (r == 0)
		r = lower(RLIMIT_MSGQUEUE, 819200, 819200);
	/* Without a pids cgroup: counted per user id of this user namespace since Linux 5.14. */
	if (r == 0 && count_pids && spec->pids > 0)
		r = lower(RLIMIT_NPROC, spec->pids, spec->pids);
	return r;
}

int setup_jail(const struct tier_start *s, char *why, size_t size)
{
	const struct sock_fprog prog = {
	    .len = seccomp_filter_len,
	    /* the kernel only reads it */
	    .filter = (struct sock_filter *)(uintptr_t)seccomp_filter, /* NOLINT(performance-no-int-to-ptr) */
	};
	int r;

	(void)snprintf(why, size, "no_new_privs");
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return -errno;
	r = landlock_enter(s, why, size);
	if (r < 0)
		return r;
	(void)snprintf(why, size, "dropping capabilities");
	r = drop_caps(agent_caps(s->spec));
	if (r < 0)
		return r;
	(void)snprintf(why, size, "loading the seccomp filter");
	return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &prog) < 0 ? -errno : 0;
}
