/* The report of a probe is read as it was written, and refused with anything in it that cannot be.
 */
#include "harness/test.h"
#include "unit/receipt/sample.h"

static struct probe p;

static int check(void) { return probe_check(&p, probe_size(&p), NULL); }
#define REFUSED(change)                                                                            \
	do {                                                                                       \
		sample_probe(&p);                                                                  \
		change;                                                                            \
		CHECK(check() == -EPROTO);                                                                            \
	} while (0)

TEST(a_report_is_taken)
{
	sample_probe(&p);
	CHECK(check() == 0);
	p.head.differences = 7;
	p.world.reach[1] = PROBE_UNTRIED;
	CHECK(check() == 0);
	p.mount[p.mounts].flags = UINT32_MAX; /* not sent */
	CHECK(check() == 0);
}

TEST(any_other_size_is_refused)
{
	sample_probe(&p);
	for (size_t n = 0; n < sizeof(p) + 2; n++)
		CHECK(n == probe_size(&p) || probe_check(&p, n, NULL) == -EPROTO);
	p.mounts = PROBE_MOUNTS_MAX + 1;
	CHECK(probe_check(&p, sizeof(p), NULL) == -EPROTO);
}

TEST(what_cannot_be_is_refused)
{
	REFUSED(p.head.magic++);
	REFUSED(p.head.version++);
	REFUSED(p.head.pad = 1);
	REFUSED(p.world.pad[0] = 1);
	REFUSED(p.command.pad2 = 1);
	REFUSED(p.uid_maps = PROBE_MAPS_MAX + 1);
	REFUSED(p.ifs = UINT32_MAX);
	REFUSED(p.init.no_new_privs = 2);
	REFUSED(p.init.seccomp_mode = 3);
	REFUSED(p.command.task.call[0] = 5000);
	REFUSED(p.command.task.ns[1] = UINT64_MAX);
	REFUSED(p.command.task.pad[0] = 1);
	REFUSED(p.world.covered[0] = PROBE_PATHS);
	REFUSED(p.world.reach[0] = 4096);
	REFUSED(p.world.reach[0] = PROBE_UNTRIED + 1);
	REFUSED(p.uid_map[1].count = 1);
	REFUSED(p.uid_map[0].count = 0);
	REFUSED(p.setgroups_denied = 2);
	REFUSED(p.landlock_abi = UINT32_MAX);
}

TEST(texts_must_be_plain_and_ended)
{
	REFUSED(memset(p.release, 'x', sizeof(p.release)));
	REFUSED(p.release[0] = '\0');
	REFUSED(p.release[1] = '"');
	REFUSED(p.agent[0] = '\n');
	REFUSED(p.node[70] = 'x');
	REFUSED(p.mount[0].at[0] = '\\');
	REFUSED(memset(p.mount[1].type, 'x', sizeof(p.mount[1].type)));
	REFUSED(p.mount[0].flags = 64);
	REFUSED(p.if_name[0][0] = '\x1b');
	REFUSED(p.if_name[3][0] = 'x');
}

TEST_MAIN()
