#include "receipt/receipt.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * What the settings promise, in the words of wire/probe_expect.h, and the walls only the host can look at: the
 * limits of the cgroups. They are looked at before the command is asked for; a difference among them tells its
 * process to stop.
 *
 * What a host cannot give and the caller accepted is in host->gap, and not expected here.
 */

static void check_limit(const char *what, uint64_t asked, const struct receipt_limit *l, struct probe_diffs *to)
{
	char number[24];

	if (asked == 0 || !l->known || l->value <= asked)
		return;
	(void)snprintf(number, sizeof(number), "%" PRIu64, asked);
	probe_differ(to, what, number, l->value == UINT64_MAX ? "none" : "%" PRIu64, l->value);
}

static void check_limits(const struct receipt_host *h, struct probe_diffs *to)
{
	check_limit("memory limit", h->spec->memory, &h->memory, to);
	check_limit("process limit", h->spec->pids, &h->pids, to);
	check_limit("cpu limit, thousandths", h->spec->cpu_milli, &h->cpu_milli, to);
}

static uint32_t flag(bool on, enum probe_expect_flag f) { return on ? f : 0; }

void receipt_expect(const struct receipt_host *h, struct probe_expect *ret)
{
	const struct spec *s = h->spec;
	const char *user = s->user != NULL && s->user[0] >= '0' && s->user[0] <= '9' ? s->user : NULL;
	struct probe_diffs own;

	own.n = 0;
	check_limits(h, &own);
	memset(ret, 0, sizeof(*ret)); /* all of it is sent */
	ret->version = PROBE_VERSION;
	ret->flags = flag(own.n > 0, EXPECT_STOP) | flag(h->landlock, EXPECT_LANDLOCK) |
		     flag(h->own_ids, EXPECT_OWN_IDS) | flag(h->euid != 0, EXPECT_NOT_ROOT) |
		     flag(s->root == ROOT_READONLY, EXPECT_READONLY) | flag(s->root == ROOT_OVERLAY, EXPECT_OVERLAY) |
		     flag(s->root_caps == ROOT_CAPS_FILES, EXPECT_FILE_CAPS) |
		     flag(s->egress == NULL, EXPECT_UNREACHABLE) | flag(user != NULL, EXPECT_UID) |
		     flag(h->pids_by_rlimit && s->pids != 0, EXPECT_PIDS);
	memcpy(ret->ns, h->ns, sizeof(ret->ns));
	ret->disk = s->disk;
	ret->inodes = s->inodes;
	ret->uid = user != NULL ? (uint32_t)strtoul(user, NULL, 10) : 0;
	ret->pids = s->pids;
	(void)snprintf(ret->release, sizeof(ret->release), "%s", h->release);
	(void)snprintf(ret->node, sizeof(ret->node), "%s", s->hostname != NULL ? s->hostname : "brig");
	(void)snprintf(ret->agent, sizeof(ret->agent), "%s", h->version);
}

void receipt_compare(const struct receipt_host *h, const struct probe *p, struct probe_diffs *ret)
{
	struct probe_expect x;

	receipt_expect(h, &x);
	ret->n = 0;
	probe_compare(&x, p, ret);
	check_limits(h, ret);
}
