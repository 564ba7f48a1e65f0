#include "relay/jail.h"

#include "base/cleanup.h"
#include "base/num.h"
#include "sys/ids.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

/*
 * What the gate may do is be told, read and write the sockets it was given, and connect. It parses what
 * sandboxes and servers send, so this is written as if it were already theirs.
 *
 * Constants newer than Debian 12's headers are given by value.
 */

enum { GATE_ID = 0x6fffffff }; /* the id below the ranges of sandboxes */

#define NR_OFFSET   offsetof(struct seccomp_data, nr)
#define ARCH_OFFSET offsetof(struct seccomp_data, arch)
#define ARG0_OFFSET offsetof(struct seccomp_data, args[0])
#define PERMIT	    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
#define REFUSE	    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM)

static const struct sock_filter filter[] = {
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, ARCH_OFFSET),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0),
    REFUSE,
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, NR_OFFSET),
#define ALLOW(call) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##call, 0, 1), PERMIT,
#include "relay/seccomp.def"
#undef ALLOW
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_socket, 1, 0),
    REFUSE,
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, ARG0_OFFSET),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AF_INET, 1, 0),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AF_INET6, 0, 1),
    PERMIT,
    REFUSE,
};

static int drop_ids(char *why, size_t size)
{
	(void)snprintf(why, size, "gate: an id of its own");
	if (!ids_host_root())
		return 0; /* as whoever started it; there is no other id to have */
	return setgroups(0, NULL) < 0 || setresgid(GATE_ID, GATE_ID, GATE_ID) < 0 ||
		       setresuid(GATE_ID, GATE_ID, GATE_ID) < 0
		   ? -errno
		   : 0;
}

static int drop_caps(char *why, size_t size)
{
	struct __user_cap_header_struct h = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct none[2] = {{0}};

	(void)snprintf(why, size, "gate: dropping capabilities");
	if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0)
		return -errno;
	return syscall(SYS_capset, &h, none) < 0 ? -errno : 0;
}

static int no_files(char *why, size_t size)
{
	struct {
		uint64_t fs, net, scoped;
	} attr = {.fs = (1u << 13) - 1, .net = 1u << 0 /* BIND_TCP */, .scoped = 3 /* unix, signals */};
	struct landlock_path_beneath_attr random = {.allowed_access = LANDLOCK_ACCESS_FS_READ_FILE};
	long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
	_cleanup_close_ int fd = -1, dev_fd = -1;

	(void)snprintf(why, size, "gate: Landlock");
	if (abi < 1)
		return 0; /* `brig check` and --require landlock speak about it */
	dev_fd = open("/dev/urandom", O_PATH | O_CLOEXEC);
	fd = (int)syscall(SYS_landlock_create_ruleset, &attr,
			  abi >= 6   ? sizeof(attr)
			  : abi >= 4 ? 2 * sizeof(uint64_t)
				     : sizeof(uint64_t),
			  0);
	if (fd < 0 || dev_fd < 0)
		return -errno;
	random.parent_fd = dev_fd;
	if (syscall(SYS_landlock_add_rule, fd, LANDLOCK_RULE_PATH_BENEATH, &random, 0) < 0)
		return -errno;
	return syscall(SYS_landlock_restrict_self, fd, 0) < 0 ? -errno : 0;
}

int jail_enter(char *why, size_t size)
{
	const struct sock_fprog prog = {
	    .len = ARRAY_LEN(filter),
	    .filter = (struct sock_filter *)(uintptr_t)filter, /* NOLINT(performance-no-int-to-ptr) */
	};
	struct rlimit core = {0, 0}, files;
	int r;

	if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
		files.rlim_cur = files.rlim_max;
		(void)setrlimit(RLIMIT_NOFILE, &files);
	}
	(void)setrlimit(RLIMIT_CORE, &core);
	r = drop_ids(why, size);
	if (r == 0)
		r = drop_caps(why, size);
	if (r < 0)
		return r;
	(void)snprintf(why, size, "gate: no_new_privs");
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
		return -errno;
	r = no_files(why, size);
	if (r < 0)
		return r;
	(void)snprintf(why, size, "gate: seccomp");
	return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &prog) < 0 ? -errno : 0;
}
