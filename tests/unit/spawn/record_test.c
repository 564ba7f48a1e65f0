#include "spawn/record.h"

#include "harness/test.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static bool exists(const struct record *r)
{
	char name[16];

	(void)snprintf(name, sizeof(name), "%u", r->slot);
	return faccessat(r->dir_fd, name, F_OK, 0) == 0;
}

/* Caller and runner hold one record; both may remove it, and meanwhile the slot may be somebody's again. */
TEST(a_slot_is_given_back_once)
{
	char dir[] = "/tmp/brig-record-XXXXXX", live[64];
	struct record caller, runner, next, other;
	struct err e = ERR_INIT;

	CHECK(mkdtemp(dir) != NULL && setenv("BRIG_STATE", dir, 1) == 0);
	CHECK(record_claim("a", &caller, &e) == 0 && caller.slot == 0);
	runner = (struct record){.fd = dup(caller.fd), .dir_fd = dup(caller.dir_fd), .slot = caller.slot};
	CHECK(record_claim("other", &other, &e) == 0 && other.slot == 1);
	CHECK(record_sweep(0) == 0 && exists(&caller) && exists(&other)); /* both are held */
	record_drop(&runner);
	CHECK(!exists(&caller));
	CHECK(record_claim("next", &next, &e) == 0 && next.slot == 0);
	record_drop(&caller);
	CHECK(exists(&next));
	record_close(&other); /* died: the next sweep takes it */
	CHECK(record_sweep(0) == 1 && exists(&next));
	record_drop(&next);
	(void)snprintf(live, sizeof(live), "%s/live", dir);
	CHECK(rmdir(live) == 0 && rmdir(dir) == 0);
}

TEST_MAIN()
