#include "spawn/cgroup_priv.h"
#include "sys/file.h"
#include "sys/ids.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

/*
 * What the host offers. The usual mount points are tried instead of parsing mountinfo: it is one
 * statfs each on the start path.
 */

#define CG_HYBRID CG_ROOT "/unified"

const char *const cg_v1_dir[CG_V1_COUNT] = {[CG_V1_MEMORY] = CG_ROOT "/memory",
						[CG_V1_CPU] = CG_ROOT "/cpu",
						[CG_V1_PIDS] = CG_ROOT "/pids"};
const uint32_t cg_v1_bit[CG_V1_COUNT] = {
    [CG_V1_MEMORY] = CG_NO_MEMORY, [CG_V1_CPU] = CG_NO_CPU, [CG_V1_PIDS] = CG_NO_PIDS};

const char *cg_v2_mount(void)
{
	struct statfs s;

	if (statfs(CG_ROOT, &s) == 0 && s.f_type == CGROUP2_SUPER_MAGIC)
		return CG_ROOT;
	if (statfs(CG_HYBRID, &s) == 0 && s.f_type == CGROUP2_SUPER_MAGIC)
		return CG_HYBRID;
	return NULL;
}

/* Our own cgroup on v2, "/a/b", from the "0::" line of /proc/self/cgroup. */
static int own_v2_path(char *dst, size_t size)
{
	char text[4096], *line, *save = NULL;
	ssize_t n = file_get(AT_FDCWD, "/proc/self/cgroup", text, sizeof(text));

	if (n < 0)
		return (int)n;
	for (line = strtok_r(text, "\n", &save); line != NULL; line = strtok_r(NULL, "\n", &save)) {
		if (strncmp(line, "0::", 3) != 0)
			continue;
		if (strlen(line + 3) >= size)
			return -ENAMETOOLONG;
		memcpy(dst, line + 3, strlen(line + 3) + 1);
		return 0;
	}
	return -ENOENT;
}

int cg_v2_base(const char *mount, char *dst, size_t size)
{
	char own[384], probe[512];
	size_t len;

	if (ids_host_root()) {
		(void)snprintf(dst, size, "%s", mount);
		return 0;
	}
	if (own_v2_path(own, sizeof(own)) < 0)
		return -ENOENT;
	len = strlen(own);
	for (size_t i = 1; i <= len; i++) {
		if (own[i] != '/' && own[i] != '\0')
			continue;
		(void)snprintf(probe, sizeof(probe), "%s%.*s/cgroup.procs", mount, (int)i, own);
		if (access(probe, W_OK) == 0) {
			(void)snprintf(dst, size, "%s%.*s", mount, (int)i, own);
			return access(dst, W_OK) == 0 ? 0 : -EACCES;
		}
	}
	return -EACCES;
}

int cg_make_dir(const char *path)
{
	return mkdir(path, 0755) == 0 || errno == EEXIST ? 0 : -errno;
}

bool cg_holds_processes(const char *dir)
{
	char path[512], text[16];
	ssize_t n;

	(void)snprintf(path, sizeof(path), "%s/cgroup.type", dir);
	if (access(path, F_OK) < 0)
		return false;
	(void)snprintf(path, sizeof(path), "%s/cgroup.procs", dir);
	n = file_get(AT_FDCWD, path, text, sizeof(text));
	return n > 0 || n == -EFBIG;
}

static uint32_t v2_missing_at(const char *base)
{
	char path[512], text[512] = " ", padded[520];
	uint32_t missing = 0;
	ssize_t n;

	if (cg_holds_processes(base))
		return CG_NO_MEMORY | CG_NO_CPU | CG_NO_PIDS;
	(void)snprintf(path, sizeof(path), "%s/cgroup.controllers", base);
	n = file_get(AT_FDCWD, path, text, sizeof(text));
	if (n > 0 && text[n - 1] == '\n')
		text[n - 1] = '\0';
	(void)snprintf(padded, sizeof(padded), " %s ", n > 0 ? text : "");
	if (strstr(padded, " memory ") == NULL)
		missing |= CG_NO_MEMORY;
	if (strstr(padded, " cpu ") == NULL)
		missing |= CG_NO_CPU;
	if (strstr(padded, " pids ") == NULL)
		missing |= CG_NO_PIDS;
	return missing;
}

void cg_host_probe(struct cg_host *ret)
{
	char path[512];
	const char *mount = cg_v2_mount();

	*ret = (struct cg_host){.v2_missing = CG_NO_MEMORY | CG_NO_CPU | CG_NO_PIDS};
	if (mount != NULL) {
		ret->v2 = true;
		ret->v2_writable = cg_v2_base(mount, ret->base, sizeof(ret->base)) == 0 &&
				   access(ret->base, W_OK) == 0;
		if (ret->v2_writable)
			ret->v2_missing = v2_missing_at(ret->base);
		/* the root of a hierarchy has no cgroup.kill: look at any child, else trust the
		 * kernel's age */
		(void)snprintf(path, sizeof(path), "%s/brig/cgroup.kill", ret->base);
		if (ret->v2_writable) {
			char dir[512];

			(void)snprintf(dir, sizeof(dir), "%s/brig", ret->base);
			(void)cg_make_dir(dir);
		}
		ret->v2_kill = ret->v2_writable && access(path, F_OK) == 0;
	}
	for (int k = 0; k < CG_V1_COUNT; k++)
		if (access(cg_v1_dir[k], W_OK) < 0)
			ret->v1_missing |= cg_v1_bit[k];
}
