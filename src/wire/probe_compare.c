#include "wire/probe_compare.h"

#include "base/num.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/*
 * What the settings promise, set against what was measured. Pure. The report's texts are printable
 * already (wire/probe.h); what it says may be anything.
 *
 * Made on both sides of the wall: in the command's process a difference is what keeps the command from being run,
 * so nothing that a sandbox can find out by itself may be left to the host's comparison alone.
 */

/* capabilities(7), securebits */
enum {
	CHOWN = 1 << 0,
	DAC_OVERRIDE = 1 << 1,
	FOWNER = 1 << 3,
	FSETID = 1 << 4,
	KILL = 1 << 5,
	SETGID = 1 << 6,
	SETUID = 1 << 7
};
enum { SECURE_BITS = 0xeb }; /* NOROOT and NO_CAP_AMBIENT_RAISE, and all four locks */
enum { MODE_FILTER = 2, OWN_IDS = 65536, OWN_IDS_FIRST = 0x70000000 };

void probe_differ(struct probe_diffs *to, const char *wall, const char *asked, const char *found, ...)
{
	struct probe_diff *d;
	va_list ap;

	if (to->n++ >= PROBE_DIFFS_MAX)
		return;
	d = &to->d[to->n - 1];
	(void)snprintf(d->wall, sizeof(d->wall), "%s", wall);
	(void)snprintf(d->asked, sizeof(d->asked), "%s", asked);
	va_start(ap, found);
	(void)vsnprintf(d->found, sizeof(d->found), found, ap);
	va_end(ap);
}

static bool has(const struct probe_expect *x, enum probe_expect_flag f) { return (x->flags & f) != 0; }

/* A text made where it is needed, since most never are. */
static const char *text(char dst[PROBE_DIFF_TEXT], const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
static const char *text(char dst[PROBE_DIFF_TEXT], const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(dst, PROBE_DIFF_TEXT, fmt, ap);
	va_end(ap);
	return dst;
}

static void check_caps(const struct probe_task *t, const char *who, uint64_t may,
		       struct probe_diffs *to)
{
	static const char *const sets[PROBE_CAPS] = {"inheritable", "permitted", "effective",
						     "bounding", "ambient"};
	char wall[PROBE_DIFF_TEXT], asked[PROBE_DIFF_TEXT];

	for (int i = 0; i < PROBE_CAPS; i++) {
		uint64_t allowed = i == PROBE_CAP_BND ? 0 : may;

		if ((t->caps[i] & ~allowed) != 0)
			probe_differ(to, text(wall, "%s capabilities of %s", sets[i], who),
			       allowed == 0 ? "none" : text(asked, "none but %#" PRIx64, allowed),
			       "%#" PRIx64, t->caps[i]);
	}
	if ((t->securebits & SECURE_BITS) != SECURE_BITS)
		probe_differ(to, text(wall, "securebits of %s", who), "0xeb, locked", "%#x",
		       t->securebits);
}

static void check_task(const struct probe_expect *x, const struct probe_task *t, const char *who,
		       uint64_t caps, struct probe_diffs *to)
{
	char wall[PROBE_DIFF_TEXT];

	if (t->no_new_privs != 1)
		probe_differ(to, text(wall, "no_new_privs of %s", who), "set", "not set");
	if (t->seccomp_mode != MODE_FILTER)
		probe_differ(to, text(wall, "seccomp of %s", who), "a filter", "mode %u",
		       t->seccomp_mode);
	check_caps(t, who, caps, to);
	for (int i = 0; i < PROBE_NSS; i++)
		if (i != PROBE_NS_time && (t->ns[i] == 0 || t->ns[i] == x->ns[i]))
			probe_differ(to, text(wall, "%s namespace of %s", probe_ns_names[i], who),
			       "its own", "%s", t->ns[i] == 0 ? "unknown" : "the host's");
	for (int i = 0; i < PROBE_CALLS; i++)
		if (t->call[i] != probe_call_wants[i])
			probe_differ(to, text(wall, "%s by %s", probe_call_names[i], who),
			       probe_call_wants[i] == EPERM ? "refused, EPERM" : "refused, ENOSYS",
			       t->call[i] == 0 ? "let through" : "errno %u", t->call[i]);
	if (has(x, EXPECT_LANDLOCK) && t->outside != EACCES)
		probe_differ(to, text(wall, "Landlock of %s", who), "a file outside is refused, EACCES",
		       t->outside == 0 ? "it could be opened" : "errno %u", t->outside);
}

static void check_ids(const struct probe_expect *x, const struct probe *p, struct probe_diffs *to)
{
	const struct probe_task *c = &p->command.task;
	char asked[PROBE_DIFF_TEXT];

	for (int i = 1; i < 3; i++)
		if (c->uid[i] != c->uid[0] || c->gid[i] != c->gid[0])
			probe_differ(to, "ids of the command", "real, effective and saved alike",
			       "uid %u %u %u, gid %u %u %u", c->uid[0], c->uid[1], c->uid[2],
			       c->gid[0], c->gid[1], c->gid[2]);
	if (has(x, EXPECT_UID) && c->uid[0] != x->uid)
		probe_differ(to, "user of the command", text(asked, "uid %u", x->uid), "uid %u", c->uid[0]);
}

/* Which host ids exist inside (user_namespaces(7)). */
static void check_map(const struct probe_expect *x, const struct probe_map *m, uint32_t n,
		      const char *what, struct probe_diffs *to)
{
	if (n == 0) {
		probe_differ(to, what, "one", "none");
		return;
	}
	if (has(x, EXPECT_OWN_IDS) &&
	    (n != 1 || m[0].inside != 0 || m[0].count != OWN_IDS || m[0].outside < OWN_IDS_FIRST))
		probe_differ(to, what, "65536 ids of the sandbox's own",
		       "%u ids from %u on, in %u ranges", m[0].count, m[0].outside, n);
	for (uint32_t i = 0; i < n; i++)
		if (m[i].outside == 0 && has(x, EXPECT_NOT_ROOT))
			probe_differ(to, what, "not the host's root", "it is id %u inside", m[i].inside);
}

static bool begins(const char *s, const char *with) { return strncmp(s, with, strlen(with)) == 0; }

/* Where the sandbox may write with a read-only root; devices are files the kernel guards. */
static bool may_write(const struct probe_expect *x, const struct probe_mount *m)
{
	static const char *const at[] = {"/workspace", "/tmp", "/var/tmp", "/run", "/dev", "/proc"};

	for (size_t i = 0; i < ARRAY_LEN(at); i++) {
		size_t n = strlen(at[i]);

		if (begins(m->at, at[i]) && (m->at[n] == '\0' || m->at[n] == '/'))
			return true;
	}
	/* homes are the sandbox's own folders, on the file system of its root; an image's never are
	 */
	return has(x, EXPECT_OVERLAY) || strcmp(m->type, "tmpfs") == 0;
}

static bool is_device(const struct probe_mount *m)
{
	return begins(m->at, "/dev/") || begins(m->at, "/proc/");
}

static void check_mounts(const struct probe_expect *x, const struct probe *p,
			 struct probe_diffs *to)
{
	bool root = false;

	for (uint32_t i = 0; i < p->mounts; i++) {
		const struct probe_mount *m = &p->mount[i];

		if (strcmp(m->at, "/") == 0) {
			root = true;
			if (has(x, EXPECT_READONLY) && (m->flags & PROBE_RDONLY) == 0)
				probe_differ(to, "root file system", "read-only", "writable");
		}
		if (!may_write(x, m) && (m->flags & PROBE_RDONLY) == 0)
			probe_differ(to, "mount", "read-only", "%.80s (%.20s) is writable", m->at,
			       m->type);
		if ((m->flags & PROBE_NOSUID) == 0 && !is_device(m))
			probe_differ(to, "mount", "nosuid", "%.80s is not", m->at);
		if ((m->flags & PROBE_NODEV) == 0 && !is_device(m))
			probe_differ(to, "mount", "nodev", "%.80s is not", m->at);
	}
	if (!root || p->mounts == PROBE_MOUNTS_MAX)
		probe_differ(to, "mounts", "a root and few others", "%u of them", p->mounts);
}

static void check_proc(const struct probe_command *c, const struct probe_world *w,
		       struct probe_diffs *to)
{
	char wall[PROBE_DIFF_TEXT];

	if (c->pids == 0 || c->pids > 2)
		probe_differ(to, "processes in /proc", "PID 1 and the command", "%u", c->pids);
	if (c->sys_open == 0)
		probe_differ(to, "/proc/sys", "not writable", "opened for writing");
	for (int i = 0; i < PROBE_COVEREDS; i++)
		if (w->covered[i] == PROBE_OPEN)
			probe_differ(to, text(wall, "/proc/%s", probe_covered_names[i]), "covered",
			       "the kernel's file");
	for (int i = 0; i < PROBE_SEALEDS; i++)
		if (w->sealed[i] == PROBE_OPEN)
			probe_differ(to, text(wall, "/proc/%s", probe_sealed_names[i]), "read-only",
			       "writable");
	if (c->fds != 0)
		probe_differ(to, "descriptors of the command", "0, 1 and 2", "%u more", c->fds);
}

/* With a gate every connection is accepted inside the namespace and ends at the gate, which decides: what is
 * proven here is that there is no interface but the loopback one. */
static void check_net(const struct probe_expect *x, const struct probe *p, struct probe_diffs *to)
{
	for (int i = 0; i < PROBE_REACHES && has(x, EXPECT_UNREACHABLE); i++) {
		uint32_t r = p->world.reach[i];

		/* a kernel without IPv6 has no such socket either */
		if (r != ENETUNREACH && r != EAFNOSUPPORT)
			probe_differ(to, probe_reach_names[i], "unreachable",
			       r == 0		    ? "on its way"
			       : r == PROBE_UNTRIED ? "not tried"
						    : "errno %u",
			       r);
	}
	for (uint32_t i = 0; i < p->ifs; i++)
		if (strcmp(p->if_name[i], "lo") != 0)
			probe_differ(to, "network interfaces", "lo", "%s", p->if_name[i]);
}

/* The disk limit is rounded up to pages. */
static void check_room(const struct probe_expect *x, const struct probe_world *w,
		       struct probe_diffs *to)
{
	const uint64_t page = 4096;
	char asked[PROBE_DIFF_TEXT];

	if (w->disk == 0 || (w->disk > x->disk && w->disk - x->disk >= page))
		probe_differ(to, "disk limit", text(asked, "%" PRIu64, x->disk),
		       w->disk == 0 ? "none" : "%" PRIu64, w->disk);
	if (w->inodes == 0 || w->inodes > x->inodes)
		probe_differ(to, "inode limit", text(asked, "%" PRIu64, x->inodes),
		       w->inodes == 0 ? "none" : "%" PRIu64, w->inodes);
}

static void check_limits(const struct probe_expect *x, const struct probe_command *c,
			 struct probe_diffs *to)
{
	char wall[PROBE_DIFF_TEXT], asked[PROBE_DIFF_TEXT];

	for (int i = 0; i < PROBE_LIMITS; i++) {
		uint64_t soft = probe_limits[i].soft, hard = probe_limits[i].hard;

		if (i == PROBE_LIMIT_NPROC && has(x, EXPECT_PIDS))
			soft = hard = x->pids;
		if (c->soft[i] > soft || c->hard[i] > hard)
			probe_differ(to, text(wall, "resource limit %s", probe_limits[i].name),
			       text(asked, "at most %" PRIu64 ", %" PRIu64, soft, hard),
			       "%" PRIu64 ", %" PRIu64, c->soft[i], c->hard[i]);
	}
}

static void check_kernel(const struct probe_expect *x, const struct probe *p,
			 struct probe_diffs *to)
{
	if (strcmp(p->release, x->release) != 0)
		probe_differ(to, "kernel", x->release, "%s", p->release);
	if (strcmp(p->node, x->node) != 0)
		probe_differ(to, "host name", x->node, "%s", p->node);
	if (strcmp(p->agent, x->agent) != 0)
		probe_differ(to, "agent", x->agent, "%s", p->agent);
}

void probe_compare(const struct probe_expect *x, const struct probe *p, struct probe_diffs *to)
{
	const bool files = has(x, EXPECT_FILE_CAPS);
	const uint64_t file_caps =
	    files ? CHOWN | DAC_OVERRIDE | FOWNER | FSETID | SETGID | SETUID : 0;
	const uint64_t init_caps =
	    CHOWN | KILL | SETGID | SETUID | (files ? DAC_OVERRIDE | FOWNER | FSETID : 0);

	check_task(x, &p->init, "PID 1", init_caps, to);
	check_task(x, &p->command.task, "the command", p->command.task.uid[0] == 0 ? file_caps : 0,
		   to);
	for (int i = 0; i < PROBE_NSS; i++)
		if (p->init.ns[i] != p->command.task.ns[i])
			probe_differ(to, "namespaces", "one set for all",
			       "PID 1 and the command differ in %s", probe_ns_names[i]);
	if (p->init.seccomp_filters > p->command.task.seccomp_filters)
		probe_differ(to, "seccomp of the command", "what PID 1 has", "%u filters instead of %u",
		       p->command.task.seccomp_filters, p->init.seccomp_filters);
	if (p->init.pid != 1)
		probe_differ(to, "agent", "PID 1", "pid %u", p->init.pid);
	check_ids(x, p, to);
	check_map(x, p->uid_map, p->uid_maps, "user id map", to);
	check_map(x, p->gid_map, p->gid_maps, "group id map", to);
	check_mounts(x, p, to);
	check_proc(&p->command, &p->world, to);
	check_net(x, p, to);
	check_limits(x, &p->command, to);
	check_room(x, &p->world, to);
	check_kernel(x, p, to);
}
