#pragma once
/*
 * The one interface every isolation tier implements; see tiers.def.
 *
 * A tier starts one process (its root process) whose death is the end of the sandbox: PID 1 of the
 * container tier, the kernel process of userkernel, the monitor of microvm. It hands back one byte
 * stream to the agent. Limits, leaves, kill and accounting are cgroup matters and common to all
 * tiers (spawn/cgroup.h); supervising and the clock are the runner's (spawn/runner.h); exec, files
 * and the rest go over the stream (session/). So a tier is only: can it run here, may this spec
 * run, start it, and, where it can, snapshot it.
 */
#include "base/err.h"
#include "core/spec.h"
#include "net/net.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum tier_id {
#define TIER(id, text) TIER_##id,
#include "tier/tiers.def"
#undef TIER
	TIER_COUNT,
};

/* One thing a host does or does not offer. Text is static or owned by the report's arena. */
enum finding_level { FINDING_OK, FINDING_NOTE, FINDING_WEAKER, FINDING_MISSING };
struct finding {
	enum finding_level level; /* MISSING: the tier cannot start; WEAKER: it starts, this wall or limit is absent */
	char what[48];            /* short name: "user namespaces" */
	char state[160];          /* what was found */
	char fix[256];            /* how to get it; empty when nothing is wrong */
};
enum { TIER_FINDINGS_MAX = 48 };
struct tier_report {
	struct finding f[TIER_FINDINGS_MAX];
	uint32_t n;
};
/* Append one finding; silently full at TIER_FINDINGS_MAX. fix may be NULL. */
void tier_report_add(struct tier_report *r, enum finding_level level, const char *what, const char *fix,
		     const char *state_fmt, ...) __attribute__((format(printf, 5, 6)));

#define TIER_TRUST_PATH "/run/brig-ca.pem"

/* What is ready for a tier's start. Descriptors are borrowed. */
struct tier_res {
	int agent_fd;        /* the sandbox's end of the agent's stream (AF_UNIX stream socket) */
	int leaf_fd;         /* v2 cgroup folder for the root process, -1 = none */
	const int *tasks_fd; /* v1 `tasks` files the root process must join by itself */
	uint32_t tasks_n;
	bool count_pids;     /* no pids cgroup holds the process limit: count by RLIMIT_NPROC */
	int exec_leaf_fd;    /* v2 cgroup folder of the first exec, -1 = none */
	uint32_t id_base;    /* first host id of the sandbox's range */
	uint32_t id_count;   /* 65536 as root; 1 = only the caller's own id */
	uint32_t cap_uid, cap_gid; /* the caller's ids, mapped when id_count is 1 */
	int init_fd;           /* brig-init (O_PATH) */
	const char *init_path; /* not NULL: brig-init belongs to the caller; show it through a read-only mount */
	uint32_t sub_uid, sub_gid; /* id_count 65536 as an ordinary user: first subordinate ids, for newuidmap(1) */
	const struct net_plan *net; /* what the sandbox's network has; NULL = loopback only */
	const char *trust;     /* certificates (PEM) for its trust store, as TIER_TRUST_PATH and in place of the image's; NULL = the image's */
	const char *sudo_path; /* brig-sudo, to be `sudo` inside; NULL = there is none */
	const char *leaf_path; /* exec_leaf_fd's path on the host, NULL with it */
};

/* Walls this host could not give a sandbox that started all the same. */
enum tier_weaker { TIER_NO_IDMAP = 1u << 0, TIER_NO_LANDLOCK = 1u << 1 };

/* What a started sandbox is to who started it. */
struct tier_box {
	pid_t root_pid;  /* a child of the process that called start */
	int root_pidfd;  /* owned by the caller after start */
	uint32_t weaker; /* enum tier_weaker */
	struct net_socks net; /* with a net_plan: made inside, owned by the caller after start; else all -1 */
};

struct tier_ops {
	const char *name;
	const char *summary;
	/* What does this host offer the tier? Never fails; everything goes into the report. */
	void (*probe)(struct tier_report *r);
	/* Refuse a spec the tier cannot honour; never weaken it silently. */
	int (*validate)(const struct spec *spec, struct err *e);
	/* Start the root process, from a single-threaded caller, and wait until it has become the agent. On
	 * failure nothing is left: every process made is dead and reaped. */
	int (*start)(const struct spec *spec, const struct tier_res *res, struct tier_box *ret, struct err *e);
};

const struct tier_ops *tier_by_name(const char *name); /* NULL when unknown */
const struct tier_ops *tier_by_id(enum tier_id id);
