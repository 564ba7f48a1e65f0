/*
 * A pack stream unpacked below a scratch folder on tmpfs. Nothing beside the destination may change,
 * no hidden temporary file may stay, and no link that was made may lead outside.
 */
#include "base/num.h"
#include "session/copy_out.h"

#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char root[64], dst[80], canary[80];

static int look(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
	char to[PATH_MAX];

	(void)flag;
	if (strncmp(path + ftw->base, ".brig-", 6) == 0 && strlen(path + ftw->base) == 22)
		abort();
	if ((st->st_mode & 07000) != 0)
		abort();
	if (S_ISLNK(st->st_mode) && realpath(path, to) != NULL &&
	    strncmp(to, dst, strlen(dst)) != 0)
		abort();
	return 0;
}
static int rm(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
	(void)st;
	(void)flag;
	(void)ftw;
	return remove(path);
}

static void setup(void)
{
	if (root[0] != '\0')
		return;
	(void)snprintf(root, sizeof(root), "/dev/shm/brig-fuzz-XXXXXX");
	if (mkdtemp(root) == NULL)
		abort();
	(void)snprintf(dst, sizeof(dst), "%s/dst", root);
	(void)snprintf(canary, sizeof(canary), "%s/canary", root);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	struct copy_out_opts o = {.dst = dst,
				  .name = "name",
				  .max_bytes = 1u << 20,
				  .max_apparent = 1u << 30,
				  .max_entries = 50,
				  .max_folders = 20};
	struct copy_out *c = NULL;
	struct stat st;
	size_t step;
	int r = 0;

	if (n < 2)
		return 0;
	setup();
	if (access(root, F_OK) < 0 && mkdir(root, 0700) < 0)
		abort();
	if (mkdir(canary, 0700) < 0)
		abort();
	step = (size_t)p[0] * 16 + 1;
	if (p[1] & 1 && mkdir(dst, 0755) < 0)
		abort();
	p += 2;
	n -= 2;
	if (copy_out_new(&o, &c, NULL) < 0)
		abort();
	for (size_t at = 0; at < n && r == 0; at += step)
		r = copy_out_feed(c, p + at, MIN(step, n - at), NULL);
	if (r == 0)
		r = copy_out_finish(c, NULL);
	copy_out_free(c);
	if (lstat(dst, &st) == 0) {
		(void)nftw(dst, look, 16, FTW_PHYS);
		(void)nftw(dst, rm, 16, FTW_DEPTH | FTW_PHYS);
	}
	/* The canary must be empty, and nothing else may be beside dst. */
	if (rmdir(canary) < 0 || rmdir(root) < 0)
		abort();
	return 0;
}
