#include "spawn/host_report.h"

#include "base/num.h"
#include "spawn/cgroup.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Limits are enforced by cgroups of either version; who may use them depends on delegation. */

static const char *const delegation_fix = "run under 'systemd-run --user --scope -p Delegate=yes', "
					  "run as root, or ask the administrator for a delegated "
					  "cgroup v2 folder";

static void add_limit(struct tier_report *r, const char *what, uint32_t missing, uint32_t bit,
		      const char *where, const char *otherwise)
{
	if ((missing & bit) == 0)
		tier_report_add(r, FINDING_OK, what, NULL, "by %s", where);
	else
		tier_report_add(r, FINDING_WEAKER, what, delegation_fix, "%s", otherwise);
}

void host_report_limits(struct tier_report *r)
{
	struct cg_host h;
	uint32_t missing;
	char where[300];

	cg_host_probe(&h);
	missing = h.v2_missing & h.v1_missing;
	if (h.v2_writable && h.v2_missing == 0)
		(void)snprintf(where, sizeof(where), "cgroup v2 below %s", h.base);
	else
		(void)snprintf(where, sizeof(where), "cgroup v1");
	add_limit(r, "memory limit", missing, CG_NO_MEMORY, where,
		  "not enforced: only the disk limit holds");
	add_limit(r, "process limit", missing, CG_NO_PIDS, where,
		  "by RLIMIT_NPROC, per user id of the sandbox");
	add_limit(r, "cpu limit", missing, CG_NO_CPU, where, "not enforced");
	if (h.v2_kill)
		tier_report_add(r, FINDING_OK, "kill", NULL, "cgroup.kill below %s", h.base);
	else
		tier_report_add(r, FINDING_WEAKER, "kill", delegation_fix,
				"no writable cgroup v2 with cgroup.kill: the PID namespace ends a "
				"sandbox, sweeps end an exec");
}
