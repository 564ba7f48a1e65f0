#pragma once
/*
 * Between the files that make up cgroup.h: where the hierarchies are, and setting limits. Paths are
 * below CG_ROOT; functions that return int return 0 or -errno, with *e where there is one.
 */
#include "spawn/cgroup.h"

#define CG_ROOT "/sys/fs/cgroup"

extern const char *const cg_v1_dir[CG_V1_COUNT];
extern const uint32_t cg_v1_bit[CG_V1_COUNT]; /* the CG_NO_* bit of each */

/* Where v2 is mounted, NULL = nowhere we look. */
const char *cg_v2_mount(void);
/*
 * Where our folders go. Root: the hierarchy's root. Ordinary user: the outermost folder on the way
 * to our own cgroup that is ours to write, below which all of it is: cloning into a child needs
 * write access to the common ancestor's cgroup.procs (cgroups(7), delegation).
 */
int cg_v2_base(const char *mount, char *dst, size_t size);
/* mkdir that accepts an existing folder. */
int cg_make_dir(const char *path);
/*
 * Does a folder that is not the hierarchy's root hold processes? Then memory cannot be handed down
 * from it, and handing down only cpu and pids, which the kernel allows, would make it a threaded
 * root: no process can be started below one (cgroups(7): no internal processes, thread mode).
 */
bool cg_holds_processes(const char *dir);

/*
 * Write the limits of spec into the made folders. A controller that is not there is noted in
 * c->weaker; a limit that exists and cannot be set is an error.
 */
int cg_apply_v2(struct cgset *c, const struct spec *spec, struct err *e);
int cg_apply_v1(struct cgset *c, enum cg_v1 k, const struct spec *spec, struct err *e);
