#pragma once
/*
 * Inside the container tier: what the runner (start.c) hands to the set-up child (child.c), which
 * becomes PID 1, and the steps of that child. All of it runs before the first hostile byte exists.
 */
#include "core/spec.h"
#include "tier/tier.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* One piece of the host that appears in the sandbox's root. */
struct image_part {
	const char *src; /* host path, in the plan's text as all here */
	const char *dst; /* below the new root, no leading slash */
	bool is_dir;
	bool shifts;   /* its files belong to the image: shifted to the sandbox's ids */
	int fd;        /* detached read-only mount of src; -1 = still to be made */
};
/* A symbolic link of the image's top level, made again in the new root. */
struct image_link {
	const char *name;
	const char *target;
};
enum { IMAGE_PARTS_MAX = 48, IMAGE_LINKS_MAX = 16, IMAGE_TEXT_MAX = 16384 };
/* Not cleared as a whole: each page touched is a page fault on the way to a start. */
struct image_plan {
	struct image_part part[IMAGE_PARTS_MAX];
	uint32_t parts;
	struct image_link link[IMAGE_LINKS_MAX];
	uint32_t links;
	bool is_host;      /* made-up /etc; /usr/local and /usr/src hidden */
	uint32_t default_uid, default_gid; /* of the image's default user */
	uint32_t uid, gid; /* of the user the sandbox runs as, who owns the workspace */
	char user[260];    /* NAME or UID[:GID] of that one */
	char home[256];    /* its home, absolute */
	uint32_t text_n;
	char text[IMAGE_TEXT_MAX];
};

#define SUDO_PART ".brig/sudo" /* where brig-sudo is, before it is put where programs are */

/* Why a set-up child gave up: errno, 0 = it did not, and what it was doing. */
struct setup_failure {
	int errnum;
	char why[220];
};

/*
 * A start under way, seen by the parent and by the set-up child, which uses the parent's memory until
 * its execve.
 */
struct tier_start {
	const struct spec *spec;
	const struct tier_res *res;
	struct image_plan plan;
	bool own_parts;  /* the plan's mounts were made by the parent (root); else the child makes its own */
	bool single_id;  /* only the caller's id is mapped: no other user exists inside */
	bool map_self;   /* the child writes its own id maps */
	int sync[2];     /* parent's and child's end of a stream socket */
	int init_fd;     /* child: brig-init as it will be executed */
	bool shared;     /* the child uses our memory; else it sends its failure over the socket */
	struct setup_failure failure; /* the child's */
	struct net_socks net; /* of the gate, from the child */
	bool has_net;    /* they came */
	int net_err;     /* the rules that lead to them: 0, or -errno with what failed */
	const char *net_why;
};

/* ---- image.c: reading the plan. Runner, before clone ---- */
int must_check image_plan(const struct spec *spec, struct image_plan *ret, struct err *e);
/* One more file of the host's, at `dst`. 0 or -E2BIG. */
int must_check image_show(struct image_plan *p, const char *src, const char *dst);
/* Detached, read-only, nosuid, nodev clone of a host path; -errno. */
int image_open_part(struct image_part *p);

/* ---- child.c ---- */
/* Never returns: becomes brig-init, or notes why not and exits. arg is the struct tier_start. */
void setup_child(const void *arg);

/* ---- steps of the child; each 0 or -errno, with what failed in *why ---- */
int must_check setup_root(struct tier_start *s, int *ret_root_fd, char *why, size_t size);       /* rootfs.c */
int must_check setup_sudo(const struct tier_start *s, int root_fd);                         /* sudo.c */
int must_check setup_devices(int root_fd, char *why, size_t size);                          /* devices.c */
int must_check setup_proc(int root_fd, char *why, size_t size);                             /* proc.c */
int must_check setup_loopback(void);                                                        /* net.c */
int must_check setup_rlimits(const struct spec *spec, bool count_pids, char *why, size_t size); /* jail.c */
/* Landlock, capabilities, no_new_privs, seccomp, in this order; nothing works as before after it. */
int must_check setup_jail(const struct tier_start *s, char *why, size_t size); /* jail.c */

/* ---- landlock.c ---- */
/* Restrict this process and all it starts. 0 also where the kernel has no Landlock with ABI >= 2. */
int must_check landlock_enter(const struct tier_start *s, char *why, size_t size);

/* Common small steps on the new root. */
int must_check mount_at(int mount_fd, int dirfd, const char *path);             /* mounts.c */
int must_check bind_at(int from_fd, const char *from, int to_fd, const char *to, uint64_t attrs);
int must_check new_fs(const char *type, const char *const *opts, unsigned attrs); /* detached; opts: k, v, ..., NULL */
/* Make the folders of path, one by one and never through a link. */
int must_check make_dirs(int root_fd, const char *path); /* rootfs.c, as the next */
/* Bind `from` of our root over what may be the image's. Missing there, or a folder here and none there: skipped. */
int must_check cover(int root_fd, const char *from, const char *to, uint64_t attrs);
int must_check put_file(int dirfd, const char *path, const char *text, mode_t mode);
