/* The report of a probe is read as it was written, and refused with anything in it that cannot be.
 */
#include "harness/test.h"
#include "unit/receipt/sample.h"

static struct probe p, got;

static int decode_command(void) { return probe_decode(&p, PROBE_COMMAND_SIZE, &got, NULL); }
static int decode_init(void) { return probe_decode(&p.head, probe_init_size(&p), &got, NULL); }
#define REFUSED(change)                                                                            \
	do {                                                                                       \
		sample_probe(&p);                                                                  \
		change;                                                                            \
		CHECK(decode_command() == -EPROTO || decode_init() == -EPROTO);                    \
	} while (0)

TEST(a_report_round_trips)
{
	sample_probe(&p);
	CHECK(decode_init() == PROBE_OF_INIT && decode_command() == PROBE_OF_COMMAND);
	CHECK(memcmp(&p, &got, PROBE_INIT_AT + probe_init_size(&p)) == 0);
}

TEST(what_was_not_tried_is_said_so)
{
	sample_probe(&p);
	p.world.reach[1] = PROBE_UNTRIED;
	CHECK(decode_init() == PROBE_OF_INIT && got.world.reach[1] == PROBE_UNTRIED);
}

TEST(any_other_size_is_refused)
{
	sample_probe(&p);
	for (size_t n = 0; n < sizeof(p); n++)
		CHECK(n == PROBE_COMMAND_SIZE || probe_decode(&p, n, &got, NULL) == -EPROTO);
	for (size_t n = 0; n < PROBE_INIT_MAX; n++)
		CHECK(n == probe_init_size(&p) || probe_decode(&p.head, n, &got, NULL) == -EPROTO);
}

TEST(what_cannot_be_is_refused)
{
	REFUSED(p.head.magic++);
	REFUSED(p.head.version++);
	REFUSED(p.head.pad = 1);
	REFUSED(p.command_head.magic++);
	REFUSED(p.command_head.version++);
	REFUSED(p.head.half = PROBE_OF_COMMAND);
	REFUSED(p.command_head.half = PROBE_OF_INIT);
	REFUSED(p.head.half = PROBE_WHOLE);
	REFUSED(p.command_head.half = 0);
	REFUSED(p.world.pad[0] = 1);
	REFUSED(p.command.pad2 = 1);
	REFUSED(p.mounts = PROBE_MOUNTS_MAX + 1);
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
