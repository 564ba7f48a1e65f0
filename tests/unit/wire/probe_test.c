/* The report of a probe is read as it was written, and refused with anything in it that cannot be.
 */
#include "harness/test.h"
#include "unit/receipt/sample.h"

static struct probe p, got;

static int decode(size_t n) { return probe_decode(&p, n, &got, NULL); }
#define REFUSED(change)                                                                            \
	do {                                                                                       \
		sample_probe(&p);                                                                  \
		change;                                                                            \
		CHECK(decode(probe_size(&p)) == -EPROTO);                                          \
	} while (0)

TEST(a_report_round_trips)
{
	sample_probe(&p);
	CHECK(decode(probe_size(&p)) == 0 && memcmp(&p, &got, probe_size(&p)) == 0);
}

TEST(what_was_not_tried_is_said_so)
{
	sample_probe(&p);
	p.command.reach[1] = PROBE_UNTRIED;
	CHECK(decode(probe_size(&p)) == 0 && got.command.reach[1] == PROBE_UNTRIED);
}

TEST(any_other_size_is_refused)
{
	sample_probe(&p);
	for (size_t n = 0; n < sizeof(p); n++)
		CHECK(n == probe_size(&p) || decode(n) == -EPROTO);
}

TEST(what_cannot_be_is_refused)
{
	REFUSED(p.magic++);
	REFUSED(p.version++);
	REFUSED(p.mounts = PROBE_MOUNTS_MAX + 1);
	REFUSED(p.uid_maps = PROBE_MAPS_MAX + 1);
	REFUSED(p.ifs = UINT32_MAX);
	REFUSED(p.init.no_new_privs = 2);
	REFUSED(p.init.seccomp_mode = 3);
	REFUSED(p.command.task.call[0] = 5000);
	REFUSED(p.command.task.ns[1] = UINT64_MAX);
	REFUSED(p.command.task.pad[0] = 1);
	REFUSED(p.command.covered[0] = PROBE_PATHS);
	REFUSED(p.command.reach[0] = 4096);
	REFUSED(p.command.reach[0] = PROBE_UNTRIED + 1);
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
