#include "guest/priv.h"

#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/*
 * PID 1 starts with a few ambient capabilities inside the sandbox's user namespace, securebits that
 * are locked and an empty bounding set, so a uid change neither gains nor loses anything by itself.
 * Every set is emptied explicitly: effective, permitted, inheritable by capset(2), and the
 * ambient set with them, since the kernel keeps it within permitted and inheritable (capabilities(7)).
 *
 * Where only one id is mapped, PID 1 already is the user, and setgroups(2) is denied for good.
 */

static bool is_user(const struct user *u)
{
	uid_t r, e, s;
	gid_t rg, eg, sg;

	return getresuid(&r, &e, &s) == 0 && getresgid(&rg, &eg, &sg) == 0 && r == u->uid && e == u->uid &&
	       s == u->uid && rg == u->gid && eg == u->gid && sg == u->gid;
}

int priv_become(const struct user *u)
{
	if (setgroups(u->groups_n, u->groups) < 0) {
		if (errno == EPERM && is_user(u))
			return 0;
		return -errno;
	}
	/*
	 * The memory may be another's too (guest/starter.h). A change of the effective id makes it what fs.suid_dumpable says, and
	 * what has no other id but the user's has lost its capabilities: the user's processes could look into it. So the
	 * real id, without which they may not, comes last, when that is put right.
	 */
	if (setresgid(u->gid, u->gid, u->gid) < 0 || setresuid((uid_t)-1, u->uid, u->uid) < 0)
		return -errno;
	(void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	if (setresuid(u->uid, (uid_t)-1, (uid_t)-1) < 0)
		return -errno;
	return is_user(u) ? 0 : -EPERM;
}

#define BIT(c) (1u << (c))
static const uint32_t file_caps = BIT(CAP_CHOWN) | BIT(CAP_DAC_OVERRIDE) | BIT(CAP_FOWNER) |
				  BIT(CAP_FSETID) | BIT(CAP_SETUID) | BIT(CAP_SETGID);

int priv_drop(bool keep_files)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2] = {{0}}, have[2];

	if (keep_files) {
		/* only what is held can be kept */
		if (syscall(SYS_capget, &head, have) < 0)
			return -errno;
		data[0].permitted = have[0].permitted & file_caps;
		data[0].effective = data[0].permitted;
		data[0].inheritable = have[0].inheritable & data[0].permitted;
	}
	if (syscall(SYS_capset, &head, data) < 0)
		return -errno;
	return 0;
}

