#pragma once
/* What the files of image_apt share: running apt, its folders, the cache of packages. */
#include "cli/image_apt.h"

#include <stdint.h>

/*
 * Folders below <cache>/recipes:
 *   apt-<sources>/       what apt knows of one set of sources; whoever downloads holds its lock
 *   pool/<sha256>.deb    every package once
 *   get-<random>/debs/   those of one build, hard links of the pool's; its builder holds a lock
 */
struct apt_folders {
	char *cache, *state, *get, *debs; /* owned paths */
	int lock_fd;                      /* of state */
	int get_fd;                       /* of get, locked */
};
int must_check apt_folders_make(const char *sources, bool show, struct apt_folders *d, struct err *e);
/* keep: the packages are still needed, image_debs_done removes them. */
void apt_folders_done(struct apt_folders *d, bool keep);

/* apt's list of what it would download. */
struct apt_deb {
	char sum[65];    /* SHA-256, hexadecimal */
	char file[256];  /* the name apt gives it */
	bool here;       /* it was in the cache */
};
struct apt_list {
	struct apt_deb *v;
	unsigned int n;
};
int must_check apt_list_read(const char *text, struct apt_list *l, struct err *e);
void apt_list_done(struct apt_list *l);
/* Link what the pool has into d->debs, after hashing it; *missing = how many it has not. */
int must_check apt_pool_take(const struct apt_folders *d, struct apt_list *l, unsigned int *missing, struct err *e);
/* Hash what was downloaded and link it into the pool; drop what nobody used for 30 days. */
int must_check apt_pool_keep(const struct apt_folders *d, const struct apt_list *l, struct err *e);

struct apt_run {
	const char *program;
	struct strv args;  /* with argv[0] */
	char *config;      /* APT_CONFIG; NULL = the host's */
	const char *doing; /* shown with how far it is; NULL = nothing */
	const char *disk;  /* folder it writes to: apt is ended when there is no room; NULL = not looked at */
	bool quiet;        /* standard error is no part of its output */
	bool failed;       /* out: it ran, and failed */
};
/* Run to its end. *out (owned): what it wrote, at most 4 MiB, also when it failed. */
int must_check apt_run(struct apt_run *run, char **out, struct err *e);
/* The first error of apt in words of the recipe, with what to do. Always fails. */
int apt_explain(const char *text, const struct recipe *r, const char *file, struct err *e);
