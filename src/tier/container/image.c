#include "base/cleanup.h"
#include "base/num.h"
#include "sys/call.h"
#include "tier/container/setup_priv.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/*
 * What of the host appears in the sandbox's root: the plan is a list of binds and symbolic links,
 * made by the runner before anything is cloned.
 *
 * Image "host": /usr and what a merged-/usr system keeps beside it; of /etc only what programs need
 * to start. Image DIR: every top-level entry of that folder but those the sandbox provides itself.
 * DIR may be hostile: its entries are only named, bound and copied as link texts, never followed.
 */

static int add_part(struct image_plan *p, const char *src, const char *dst, bool is_dir)
{
	struct image_part *part;

	if (p->parts >= IMAGE_PARTS_MAX)
		return -E2BIG;
	part = &p->part[p->parts];
	if ((size_t)snprintf(part->src, sizeof(part->src), "%s", src) >= sizeof(part->src) ||
	    (size_t)snprintf(part->dst, sizeof(part->dst), "%s", dst) >= sizeof(part->dst))
		return -ENAMETOOLONG;
	part->is_dir = is_dir;
	part->shifts = strncmp(src, "/sys/", 5) != 0;
	part->fd = -1;
	p->parts++;
	return 0;
}

/* Add src as dst the way it is there: folder, file or symbolic link. Missing is fine. */
static int add_as_is(struct image_plan *p, int dirfd, const char *src, const char *full, const char *dst)
{
	struct stat st;
	ssize_t n;

	if (fstatat(dirfd, src, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : -errno;
	if (S_ISDIR(st.st_mode) || S_ISREG(st.st_mode))
		return add_part(p, full, dst, S_ISDIR(st.st_mode));
	if (!S_ISLNK(st.st_mode))
		return 0;
	if (p->links >= IMAGE_LINKS_MAX)
		return -E2BIG;
	if ((size_t)snprintf(p->link[p->links].name, sizeof(p->link->name), "%s", dst) >= sizeof(p->link->name))
		return -ENAMETOOLONG;
	n = readlinkat(dirfd, src, p->link[p->links].target, sizeof(p->link->target) - 1);
	if (n < 0)
		return -errno;
	p->link[p->links].target[n] = '\0';
	p->links++;
	return 0;
}

static int plan_host(struct image_plan *p, struct err *e)
{
	static const char *const dirs[] = {"/usr", "/bin", "/sbin", "/lib", "/lib64", "/lib32", "/libx32"};
	static const char *const parts[] = {"/etc/alternatives", "/etc/ssl/certs", "/etc/ld.so.cache",
					    "/sys/devices/system/cpu"};

	p->is_host = true;
	p->uid = p->gid = 1000;
	(void)snprintf(p->user, sizeof(p->user), "user");
	(void)snprintf(p->home, sizeof(p->home), "/home/user");
	for (size_t i = 0; i < ARRAY_LEN(dirs) + ARRAY_LEN(parts); i++) {
		const char *path = i < ARRAY_LEN(dirs) ? dirs[i] : parts[i - ARRAY_LEN(dirs)];
		int r = add_as_is(p, AT_FDCWD, path, path, path + 1);

		if (r < 0)
			return err_set(e, ERR_INTERNAL, -r, "image host: %s", path);
	}
	return 0;
}

/* Top-level names the sandbox provides itself. */
static bool is_ours(const char *name)
{
	static const char *const ours[] = {".", "..", "proc", "dev", "sys", "tmp", "run", "workspace", ".brig"};

	for (size_t i = 0; i < ARRAY_LEN(ours); i++)
		if (strcmp(name, ours[i]) == 0)
			return true;
	return false;
}

static int plan_dir(const char *image, struct image_plan *p, struct err *e)
{
	int fd = open(image, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *ent;
	char full[512];
	int r = 0;

	if (d == NULL) {
		r = errno;
		if (fd >= 0)
			(void)close(fd);
		return err_set(e, ERR_NOT_FOUND, r, "image '%s': %s", image, strerror(r));
	}
	(void)snprintf(p->user, sizeof(p->user), "root");
	(void)snprintf(p->home, sizeof(p->home), "/root");
	while (r == 0 && (ent = readdir(d)) != NULL) {
		if (is_ours(ent->d_name))
			continue;
		if ((size_t)snprintf(full, sizeof(full), "%s/%s", image, ent->d_name) >= sizeof(full))
			r = -ENAMETOOLONG;
		else
			r = add_as_is(p, dirfd(d), ent->d_name, full, ent->d_name);
		if (r < 0)
			(void)err_set(e, ERR_INVALID, -r,
				      "image '%s': entry '%.64s': %s (at most %d entries with short names at its top)",
				      image, ent->d_name, strerror(-r), IMAGE_PARTS_MAX);
	}
	(void)closedir(d);
	if (r == 0)
		r = add_part(p, "/sys/devices/system/cpu", "sys/devices/system/cpu", true);
	return r;
}

int image_plan(const struct spec *spec, struct image_plan *ret, struct err *e)
{
	ret->parts = ret->links = 0;
	ret->is_host = false;
	ret->uid = ret->gid = 0;
	return strcmp(spec->image, "host") == 0 ? plan_host(ret, e) : plan_dir(spec->image, ret, e);
}

int image_open_part(struct image_part *p)
{
	int fd = sys_open_tree(AT_FDCWD, p->src, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_SYMLINK_NOFOLLOW);
	int r;

	/* A tree with mounts below it, copied into a user namespace, may only be taken whole. */
	if (fd == -EINVAL)
		fd = sys_open_tree(AT_FDCWD, p->src,
				   OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE | AT_SYMLINK_NOFOLLOW);
	if (fd < 0)
		return fd;
	r = sys_mount_setattr(fd, AT_RECURSIVE, MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, 0, -1);
	/* The copy is a peer of the host's mount where that is shared (systemd's default): what is mounted
	 * on it inside would appear on the host, and the host's later mounts inside. */
	if (r == 0)
		r = sys_mount_private(fd, AT_RECURSIVE);
	if (r < 0) {
		(void)close(fd);
		return r;
	}
	p->fd = fd;
	return 0;
}
