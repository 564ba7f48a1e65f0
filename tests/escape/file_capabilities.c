/*
 * Gains capabilities: by a file that carries them, by raising sets, by uid 0, by ambient ones. The control is root of
 * namespaces of its own, which is as much as capabilities mean without the host's root.
 *
 * group: privileges
 * tries: write file capabilities, raise inheritable and ambient sets, drop no_new_privs, keep capabilities over setuid, use them
 * control: ns
 * no-control: no-new-privs nobody can take it back
 */
#include <linux/capability.h>
#include <linux/securebits.h>
#include <sys/prctl.h>
#include <sys/xattr.h>

#include "attack.h"

static long file_cap(void)
{
	char path[] = "/tmp/escape-capXXXXXX";
	struct vfs_cap_data v = {.magic_etc = VFS_CAP_REVISION_2 | VFS_CAP_FLAGS_EFFECTIVE};
	int fd = mkstemp(path);
	long r;

	v.data[0].permitted = 1u << CAP_SYS_ADMIN | 1u << CAP_NET_RAW;
	r = fd < 0 ? -1 : fsetxattr(fd, "security.capability", &v, sizeof(v), 0);
	if (fd >= 0)
		(void)close(fd);
	(void)unlink(path);
	return r;
}

/* Both words of all sets, or only cap's bit of the inheritable one. */
static long raise_set(int all)
{
	struct __user_cap_header_struct h = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct d[2] = {{0, 0, 0}, {0, 0, 0}};

	if (syscall(SYS_capget, &h, d) < 0)
		return -1;
	d[0].inheritable |= 1u << CAP_SYS_ADMIN;
	if (all) {
		d[0].permitted |= 1u << CAP_SYS_ADMIN | 1u << CAP_SYS_PTRACE;
		d[0].effective |= d[0].permitted;
	}
	return syscall(SYS_capset, &h, d);
}

static long admin(void *arg)
{
	(void)arg;
	return raise_set(1);
}

static long ambient(void *arg)
{
	(void)arg;
	(void)raise_set(0);
	return prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_SYS_ADMIN, 0, 0);
}

static long bounded(void *arg)
{
	(void)arg;
	return prctl(PR_CAPBSET_READ, CAP_SYS_ADMIN) == 1 ? 0 : (errno = EPERM, -1);
}

static long bits(void *arg)
{
	(void)arg;
	return prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP);
}

static long new_privs(void *arg)
{
	(void)arg;
	return prctl(PR_SET_NO_NEW_PRIVS, 0, 0, 0, 0);
}

int main(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	tried("file", file_cap());
	tried("sets", in_child(admin, NULL));
	tried("ambient", in_child(ambient, NULL));
	tried("bounding", in_child(bounded, NULL));
	tried("securebits", in_child(bits, NULL));
	tried("no-new-privs", in_child(new_privs, NULL));
	return ended();
}
