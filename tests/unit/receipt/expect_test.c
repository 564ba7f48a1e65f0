/* Each wall that is not as asked for is a difference, and one that is named; what is as it should
 * be is none. */
#include "harness/test.h"
#include "unit/receipt/sample.h"

static struct probe p;
static struct receipt_host h;
static struct probe_diffs d;

static void fresh(void)
{
	sample_probe(&p);
	sample_host(&h);
}

/* 1 when the comparison names exactly one difference, and its wall has `name` in it. */
static int one(const char *name)
{
	receipt_compare(&h, &p, &d);
	for (uint32_t i = 0; i < d.n && i < PROBE_DIFFS_MAX; i++)
		if (d.n != 1 || strstr(d.d[i].wall, name) == NULL)
			printf("# %s: asked %s, found %s\n", d.d[i].wall, d.d[i].asked,
			       d.d[i].found);
	return d.n == 1 && strstr(d.d[0].wall, name) != NULL;
}
#define DIFFERS(change, name)                                                                      \
	do {                                                                                       \
		fresh();                                                                           \
		change;                                                                            \
		CHECK(one(name));                                                                  \
	} while (0)

TEST(as_asked_is_no_difference)
{
	fresh();
	receipt_compare(&h, &p, &d);
	CHECK(d.n == 0);
}

TEST(every_refused_call_counts_for_both)
{
	for (int i = 0; i < PROBE_CALLS; i++) {
		DIFFERS(p.command.task.call[i] = 0, probe_call_names[i]);
		DIFFERS(p.init.call[i] = EFAULT, probe_call_names[i]);
	}
}

TEST(every_capability_set_counts)
{
	for (int i = 0; i < PROBE_CAPS; i++) {
		DIFFERS(p.command.task.caps[i] = 1, "of the command");
		DIFFERS(p.init.caps[i] |= UINT64_C(1) << 21, "of PID 1");
	}
	DIFFERS(p.command.task.securebits = 0, "securebits of the command");
	DIFFERS(p.init.no_new_privs = 0, "no_new_privs of PID 1");
	DIFFERS(p.command.task.seccomp_mode = 0, "seccomp of the command");
}

TEST(every_namespace_counts_but_time)
{
	for (int i = 0; i < PROBE_NSS; i++) {
		fresh();
		p.init.ns[i] = p.command.task.ns[i] = h.ns[i];
		receipt_compare(&h, &p, &d);
		CHECK(d.n == (i == PROBE_NS_time ? 0u : 2u));
	}
	DIFFERS(p.command.task.ns[PROBE_NS_net] = 7777, "namespaces");
}

TEST(every_path_and_address_counts)
{
	for (int i = 0; i < PROBE_COVEREDS; i++)
		DIFFERS(p.world.covered[i] = PROBE_OPEN, probe_covered_names[i]);
	for (int i = 0; i < PROBE_SEALEDS; i++)
		DIFFERS(p.world.sealed[i] = PROBE_OPEN, probe_sealed_names[i]);
	for (int i = 0; i < PROBE_REACHES; i++)
		DIFFERS(p.world.reach[i] = 0, probe_reach_names[i]);
	DIFFERS(memcpy(p.if_name[0], "eth0", 5), "interfaces");
	for (int i = 0; i < PROBE_REACHES; i++)
		DIFFERS(p.world.reach[i] = PROBE_UNTRIED, probe_reach_names[i]);
	DIFFERS(p.command.sys_open = 0, "/proc/sys");
	DIFFERS(p.command.pids = 3, "processes");
	DIFFERS(p.command.fds = 1, "descriptors");
}

TEST(limits_and_ids_count)
{
	for (int i = 0; i < PROBE_LIMITS; i++)
		if (i != PROBE_LIMIT_NPROC)
			DIFFERS(p.command.hard[i]++, probe_limits[i].name);
	DIFFERS(h.pids_by_rlimit = true, "nproc");
	DIFFERS(h.memory.value++, "memory limit");
	DIFFERS(h.pids.value = UINT64_MAX, "process limit");
	DIFFERS(p.world.disk += 4096, "disk limit");
	DIFFERS(p.world.disk = 0, "disk limit");
	DIFFERS(p.world.inodes++, "inode limit");
	DIFFERS(p.world.inodes = 0, "inode limit");
	DIFFERS(p.uid_map[0].outside = 1000, "user id map");
	DIFFERS(p.gid_maps = 0, "group id map");
	DIFFERS(p.command.task.uid[2] = 0, "ids of the command");
	DIFFERS(p.init.pid = 2, "agent");
	DIFFERS(memcpy(p.agent, "9.9", 4), "agent");
	DIFFERS(memcpy(p.release, "5.0.0", 6), "kernel");
	DIFFERS(memcpy(p.node, "host", 5), "host name");
	fresh();
	h.memory.known = h.pids.known = false; /* no cgroup: a gap, not a difference */
	receipt_compare(&h, &p, &d);
	CHECK(d.n == 0);
}

TEST(mounts_count)
{
	DIFFERS(p.mount[1].flags &= ~(uint32_t)PROBE_RDONLY, "mount");
	DIFFERS(p.mount[1].flags &= ~(uint32_t)PROBE_NOSUID, "mount");
	DIFFERS(p.mount[2].flags &= ~(uint32_t)PROBE_NODEV, "mount");
	DIFFERS(p.mount[0].flags &= ~(uint32_t)PROBE_RDONLY, "root file system");
}

TEST(landlock_counts_only_where_it_should_stand)
{
	DIFFERS(p.command.task.outside = 0, "Landlock of the command");
	DIFFERS(p.init.outside = ENOENT, "Landlock of PID 1");
	fresh();
	h.landlock = false;
	p.command.task.outside = p.init.outside = 0;
	receipt_compare(&h, &p, &d);
	CHECK(d.n == 0);
}

/* What stops the command inside is the same comparison, and a word for what only the host sees. */
TEST(the_command_is_stopped_by_whatever_is_a_difference)
{
	struct probe_expect x;

	fresh();
	receipt_expect(&h, &x);
	CHECK((x.flags & EXPECT_STOP) == 0);
	d.n = 0;
	probe_compare(&x, &p, &d);
	CHECK(d.n == 0);
	p.command.sys_open = 0;
	probe_compare(&x, &p, &d);
	CHECK(d.n == 1);
	h.memory.value++;
	receipt_expect(&h, &x);
	CHECK((x.flags & EXPECT_STOP) != 0);
}

TEST(more_than_there_is_room_for_is_counted)
{
	fresh();
	memset(p.command.task.call, 0, sizeof(p.command.task.call));
	receipt_compare(&h, &p, &d);
	_Static_assert((int)PROBE_CALLS > (int)PROBE_DIFFS_MAX, "as the test says");
	CHECK(d.n == PROBE_CALLS);
}

TEST_MAIN()
