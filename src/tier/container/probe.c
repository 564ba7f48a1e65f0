#include "base/cleanup.h"
#include "base/num.h"
#include "net/net.h"
#include "sys/call.h"
#include "sys/file.h"
#include "sys/ids.h"
#include "sys/landlock.h"
#include "tier/container/setup_priv.h"
#include "tier/container/start_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

/*
 * What this host offers the container tier, found by trying: a child makes the namespaces and
 * mounts /proc in them as a start would. Settings are read only to explain a failure.
 */

enum probe_step { STEP_NONE, STEP_USERNS, STEP_OTHER_NS, STEP_PROC, STEP_TMPFS };

/* Exit status of the child: step * 64 + errno (both small). */
static _Noreturn void probe_child(void)
{
	_cleanup_close_ int fd = -1;

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	if (unshare(CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWNET | CLONE_NEWUTS | CLONE_NEWCGROUP) < 0)
		_exit(STEP_OTHER_NS);
	fd = new_fs("tmpfs", NULL, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
	if (fd < 0 || mount_at(fd, AT_FDCWD, "/") < 0)
		_exit(STEP_TMPFS);
	fd = new_fs("proc", NULL, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);
	_exit(fd < 0 ? STEP_PROC : STEP_NONE);
}

static enum probe_step try_namespaces(int *ret_errno)
{
	struct clone_args args = {.flags = CLONE_NEWUSER | CLONE_NEWPID, .exit_signal = SIGCHLD};
	int status = 0;
	pid_t pid = sys_clone3(&args);

	*ret_errno = 0;
	if (pid == 0)
		probe_child();
	if (pid < 0) {
		*ret_errno = -pid;
		return STEP_USERNS;
	}
	if (waitpid(pid, &status, 0) < 0 || !WIFEXITED(status))
		return STEP_OTHER_NS;
	return (enum probe_step)WEXITSTATUS(status);
}

static bool setting_is(const char *path, const char *value)
{
	char text[64];
	ssize_t n = file_get(AT_FDCWD, path, text, sizeof(text));

	return n > 0 && strncmp(text, value, strlen(value)) == 0 &&
	       (text[strlen(value)] == '\n' || text[strlen(value)] == '\0');
}

static void explain_userns(struct tier_report *r, int err)
{
	if (setting_is("/proc/sys/kernel/unprivileged_userns_clone", "0"))
		tier_report_add(r, FINDING_MISSING, "user namespaces",
				"sysctl kernel.unprivileged_userns_clone=1",
				"kernel.unprivileged_userns_clone is 0");
	else if (setting_is("/proc/sys/user/max_user_namespaces", "0"))
		tier_report_add(r, FINDING_MISSING, "user namespaces",
				"sysctl user.max_user_namespaces=10000",
				"user.max_user_namespaces is 0");
	else
		tier_report_add(r, FINDING_MISSING, "user namespaces",
				err == EPERM ? "inside another container: let it create user "
					       "namespaces (its seccomp and "
					       "AppArmor profiles forbid it)"
					     : "a kernel with CONFIG_USER_NS",
				"clone3: %s", strerror(err));
}

static void probe_namespaces(struct tier_report *r)
{
	int err = 0;
	enum probe_step step = try_namespaces(&err);
	bool apparmor = setting_is("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1") &&
			geteuid() != 0;

	switch (step) {
	case STEP_NONE:
		tier_report_add(r, FINDING_OK, "user namespaces", NULL,
				"user, mount, pid, net, ipc, uts and cgroup");
		tier_report_add(r, FINDING_OK, "/proc", NULL, "can be mounted in a sandbox");
		break;
	case STEP_USERNS:
		explain_userns(r, err);
		break;
	case STEP_OTHER_NS:
	case STEP_TMPFS:
		tier_report_add(
		    r, FINDING_MISSING, "namespaces",
		    apparmor
			? "load dist/apparmor/brig (apparmor_parser -r), which lets brig use them"
			: "a kernel with mount, net, ipc, uts and cgroup namespaces",
		    apparmor
			? "AppArmor takes the capabilities of unprivileged user namespaces away"
			: "they cannot be made in a user namespace");
		break;
	case STEP_PROC:
		tier_report_add(
		    r, FINDING_MISSING, "/proc",
		    "inside Docker: --security-opt systempaths=unconfined; Kubernetes: procMount: "
		    "Unmasked",
		    "parts of the host's /proc are covered by mounts, so a fresh one is refused");
		break;
	}
}

static void probe_kernel(struct tier_report *r)
{
	struct utsname u;
	int major = 0, minor = 0;

	if (uname(&u) < 0 || sscanf(u.release, "%d.%d", &major, &minor) != 2)
		return;
	tier_report_add(r, major > 5 || (major == 5 && minor >= 15) ? FINDING_OK : FINDING_MISSING,
			"kernel", major > 5 || (major == 5 && minor >= 15) ? NULL : "Linux >= 5.15",
			"Linux %s", u.release);
}

static void probe_landlock(struct tier_report *r)
{
	int abi = landlock_abi();

	if (abi >= 2)
		tier_report_add(r, FINDING_OK, "Landlock", NULL, "ABI %d", abi);
	else
		tier_report_add(r, FINDING_WEAKER, "Landlock",
				"Linux >= 5.19 booted with landlock in lsm=",
				abi == 0 ? "not there: the mount namespace stands alone"
					 : "ABI 1 is not used: it forbids renames across folders");
}

static void probe_seccomp(struct tier_report *r)
{
	uint32_t action = SECCOMP_RET_ERRNO;
	bool ok = syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) == 0;

	tier_report_add(r, ok ? FINDING_OK : FINDING_MISSING, "seccomp",
			ok ? NULL : "a kernel with CONFIG_SECCOMP_FILTER",
			ok ? "filters available" : "%s", strerror(errno));
}

/* Can /usr be shifted to other ids? */
static void probe_idmap(struct tier_report *r)
{
	_cleanup_close_ int tree_fd = -1, ns_fd = -1;
	struct clone_args args = {.flags = CLONE_NEWUSER, .exit_signal = SIGCHLD};
	char path[64];
	int ret = -1, gate[2] = {-1, -1};
	pid_t pid;

	if (!ids_host_root()) {
		tier_report_add(
		    r, FINDING_NOTE, "idmapped mounts",
		    "run as root for an own range of ids per sandbox",
		    "not for an ordinary user: files of the image belong to nobody inside");
		return;
	}
	tree_fd = sys_open_tree(AT_FDCWD, "/usr", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
	if (tree_fd < 0 || pipe2(gate, O_CLOEXEC) < 0)
		return;
	pid = sys_clone3(&args);
	if (pid == 0) {
		char byte;

		(void)close(gate[1]);
		(void)!read(gate[0], &byte, 1);
		_exit(0);
	}
	if (pid > 0) {
		(void)snprintf(path, sizeof(path), "/proc/%d/uid_map", pid);
		ret = file_put(AT_FDCWD, path, "0 1879048192 65536");
		(void)snprintf(path, sizeof(path), "/proc/%d/gid_map", pid);
		if (ret == 0)
			ret = file_put(AT_FDCWD, path, "0 1879048192 65536");
		(void)snprintf(path, sizeof(path), "/proc/%d/ns/user", pid);
		ns_fd = open(path, O_RDONLY | O_CLOEXEC);
		if (ret == 0)
			ret = sys_mount_setattr(tree_fd, 0, MOUNT_ATTR_IDMAP, 0, ns_fd);
		(void)close(gate[1]);
		gate[1] = -1;
		(void)waitpid(pid, NULL, 0);
	}
	for (int i = 0; i < 2; i++)
		if (gate[i] >= 0)
			(void)close(gate[i]);
	if (ret == 0)
		tier_report_add(r, FINDING_OK, "idmapped mounts", NULL,
				"the host's /usr belongs to root inside");
	else
		tier_report_add(r, FINDING_WEAKER, "idmapped mounts",
				"keep /usr on ext4, xfs or btrfs (an overlay, as inside Docker, "
				"cannot be shifted)",
				"%s: files of the image belong to nobody inside", strerror(-ret));
}

static void probe_subids(struct tier_report *r)
{
	if (ids_host_root())
		return;
	if (access("/usr/bin/newuidmap", X_OK) == 0)
		tier_report_add(r, FINDING_OK, "newuidmap", NULL,
				"other users inside, where /etc/subuid has a range for you");
	else
		tier_report_add(
		    r, FINDING_NOTE, "newuidmap",
		    "apt-get install uidmap, and a range in /etc/subuid and /etc/subgid",
		    "not there: only the image's default user exists inside");
}

static void add_part(struct tier_report *r, const struct net_offer *o, enum net_part part, bool needed)
{
	const struct net_part_info *i = &net_part_info[part];
	char fix[240];

	if (o->err[part] == 0) {
		tier_report_add(r, FINDING_OK, i->name, NULL, "for %s", i->purpose);
		return;
	}
	(void)snprintf(fix, sizeof(fix), "modprobe -a %s, and list them in /etc/modules-load.d%s", i->modules,
		       needed ? "" : "; only if you want it");
	tier_report_add(r, FINDING_NOTE, i->name, fix, "%s; needed for %s", strerror(o->err[part]), i->purpose);
}

/* Only runs that may reach something need it; such a run is refused where it is missing. */
static void probe_gate(struct tier_report *r)
{
	struct net_offer o;
	int ret = net_probe(&o);
	bool ways[NET_WAYS];

	if (ret < 0) { /* why, is said above */
		tier_report_add(r, FINDING_NOTE, "gate (--allow)", "see namespaces; until then --allow is refused",
				"no namespaces to try it in: %s", strerror(-ret));
		return;
	}
	for (int w = 0; w < NET_WAYS; w++)
		ways[w] = o.setup_err[w] == 0;
	if (ways[NET_TPROXY])
		tier_report_add(r, FINDING_OK, "gate (--allow)", NULL, "by nft tproxy");
	else if (ways[NET_REDIRECT])
		tier_report_add(r, FINDING_OK, "gate (--allow)", NULL,
				"by nft redirect, with connection tracking; no nft tproxy");
	else
		tier_report_add(r, FINDING_NOTE, "gate (--allow)",
				"what is named below; until then --allow is refused", "%s: %s",
				o.why[NET_REDIRECT], strerror(o.setup_err[NET_REDIRECT]));
	for (int i = NET_PART_namespaces + 1; i < NET_PARTS; i++)
		add_part(r, &o, (enum net_part)i,
			 i != NET_PART_tun && i != NET_PART_ipv6 && (i != NET_PART_redirect || !ways[NET_TPROXY]));
}

void container_probe(struct tier_report *r)
{
	probe_kernel(r);
	probe_namespaces(r);
	probe_seccomp(r);
	probe_landlock(r);
	probe_idmap(r);
	probe_subids(r);
	probe_gate(r);
}
