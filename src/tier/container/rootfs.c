#include "base/cleanup.h"
#include "base/num.h"
#include "sys/call.h"
#include "tier/container/etc_priv.h"
#include "tier/container/setup_priv.h"
#include "wire/pack.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/*
 * The sandbox's root. One tmpfs with the `disk` limit is the root folder; the image's parts are
 * bound below it; the writable places are folders of it, bound onto themselves before the root
 * itself turns read-only, so they all share the one limit. With `root: overlay` the root stays
 * writable and every folder of the image gets an overlay whose upper layer is in the same tmpfs.
 *
 * It is built attached on top of "/" of the child's private mount namespace and reached only by
 * descriptor. Names inside an image are hostile: they are resolved beneath it without links.
 */

struct writable {
	char path[256];
	mode_t mode;
	uint32_t uid, gid;
};

/* Never through a link: until the pivot the host's tree is still there, and an absolute link of the image's, or an
 * absolute path, would lead into it. */
int make_dirs(int root_fd, const char *path)
{
	_cleanup_close_ int at = -1;
	char name[256];

	if (path[0] == '\0' || !pack_path_ok(path, strlen(path)))
		return -EINVAL;
	while (*path != '\0') {
		size_t n = strcspn(path, "/");
		int from = at < 0 ? root_fd : at, next;

		memcpy(name, path, n); /* at most 255 bytes: pack_path_ok */
		name[n] = '\0';
		if (mkdirat(from, name, 0755) < 0 && errno != EEXIST)
			return -errno;
		next = openat(from, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (next < 0)
			return -errno;
		if (at >= 0)
			(void)close(at);
		at = next;
		path += path[n] == '/' ? n + 1 : n;
	}
	return 0;
}

static int make_root(const struct spec *spec, int *ret_fd)
{
	char bytes[32], inodes[32];
	const char *const opts[] = {"size", bytes, "nr_inodes", inodes, "mode", "0755", NULL};
	int fd, r;

	(void)snprintf(bytes, sizeof(bytes), "%llu", (unsigned long long)spec->disk);
	(void)snprintf(inodes, sizeof(inodes), "%llu", (unsigned long long)spec->inodes);
	fd = new_fs("tmpfs", opts, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
	if (fd < 0)
		return fd;
	r = mount_at(fd, AT_FDCWD, "/");
	if (r < 0) {
		(void)close(fd);
		return r;
	}
	*ret_fd = fd;
	return 0;
}

/* An overlay over the folder `dst`, which the image's part is mounted on. The working folder is the
 * root: layers are named relative to it. */
static int overlay_part(int root_fd, const char *dst)
{
	char upper[96], work[96];
	const char *opts[] = {"lowerdir", dst,	       "upperdir", upper, "workdir",
			      work,	  "userxattr", NULL,	   NULL};
	_cleanup_close_ int fd = -1;
	int r;

	(void)snprintf(upper, sizeof(upper), ".brig/upper/%s", dst);
	(void)snprintf(work, sizeof(work), ".brig/work/%s", dst);
	r = make_dirs(root_fd, upper);
	if (r == 0)
		r = make_dirs(root_fd, work);
	if (r < 0)
		return r;
	fd = new_fs("overlay", opts, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
	return fd < 0 ? fd : mount_at(fd, root_fd, dst);
}

static int place_part(struct tier_start *s, int root_fd, struct image_part *p)
{
	int r = 0;

	if (p->fd < 0)
		r = image_open_part(p);
	if (r == -ENOENT || r == -EACCES)
		return 0; /* gone or unreadable for this caller: as if the image did not have it */
	if (r < 0)
		return r;
	if (p->is_dir) {
		r = make_dirs(root_fd, p->dst);
	} else {
		char parent[64];
		char *slash;

		(void)snprintf(parent, sizeof(parent), "%s", p->dst);
		slash = strrchr(parent, '/');
		if (slash != NULL) {
			*slash = '\0';
			r = make_dirs(root_fd, parent);
		}
		if (r == 0)
			r = put_file(root_fd, p->dst, "", 0644);
	}
	if (r == 0)
		r = mount_at(p->fd, root_fd, p->dst);
	if (r == 0 && s->spec->root == ROOT_OVERLAY && p->is_dir && strncmp(p->dst, "sys/", 4) != 0 &&
	    strcmp(p->dst, "mnt") != 0)
		r = overlay_part(root_fd, p->dst);
	return r;
}

int cover(int root_fd, const char *from, const char *to, uint64_t attrs)
{
	/* the target first: a mount that is made and dropped again costs an RCU wait */
	_cleanup_close_ int dst =
	    sys_openat2(root_fd, to, O_PATH | O_NOFOLLOW, RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
	_cleanup_close_ int src = -1;
	struct stat ours, theirs;
	int r;

	if (dst < 0)
		return 0;
	if (fstatat(root_fd, from, &ours, AT_SYMLINK_NOFOLLOW) < 0 || fstat(dst, &theirs) < 0)
		return -errno;
	if (S_ISDIR(ours.st_mode) != S_ISDIR(theirs.st_mode))
		return 0;
	src = sys_open_tree(root_fd, from, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
	if (src < 0)
		return src;
	r = attrs != 0 ? sys_mount_setattr(src, 0, attrs, 0, -1) : 0;
	return r < 0 ? r : mount_at(src, dst, "");
}

static uint32_t writables(const struct image_plan *p, struct writable w[8])
{
	uint32_t n = 0;

	w[n++] = (struct writable){"workspace", 0755, p->uid, p->gid};
	w[n++] = (struct writable){"tmp", 01777, 0, 0};
	w[n++] = (struct writable){"run", 01777, 0, 0};
	w[n++] = (struct writable){"dev/shm", 01777, 0, 0};
	w[n++] = (struct writable){"var/tmp", 01777, 0, 0};
	if (p->is_host) {
		w[n++] = (struct writable){"home/user", 0750, p->default_uid, p->default_gid};
		w[n++] = (struct writable){"root", 0700, 0, 0};
	} else if (strcmp(p->home, "/") != 0) {
		w[n] = (struct writable){"", 0750, p->uid, p->gid};
		(void)snprintf(w[n++].path, sizeof(w->path), "%s", p->home + 1);
	}
	return n;
}

static bool is_below(const char *path, const char *top)
{
	size_t n = strlen(top);

	return strncmp(path, top, n) == 0 && (path[n] == '/' || path[n] == '\0');
}

/* Is path, or a folder above it, a part or a link that the image brings? Then a folder of our own
 * is bound over it. */
static bool in_image(const struct image_plan *p, const char *path)
{
	for (uint32_t i = 0; i < p->parts; i++)
		if (is_below(path, p->part[i].dst))
			return true;
	for (uint32_t i = 0; i < p->links; i++)
		if (is_below(path, p->link[i].name))
			return true;
	return false;
}

static int place_writable(const struct tier_start *s, int root_fd, const struct writable *w)
{
	char own[288];
	const char *at = w->path;
	int r;

	if (in_image(&s->plan, w->path)) {
		(void)snprintf(own, sizeof(own), ".brig/%s", w->path);
		at = own;
	}
	r = make_dirs(root_fd, at);
	if (r < 0)
		return r;
	if (fchmodat(root_fd, at, w->mode, 0) < 0)
		return -errno;
	if (w->uid != 0 && !s->single_id &&
	    fchownat(root_fd, at, w->uid, w->gid, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	if (at != w->path)
		return cover(root_fd, at, w->path, 0);
	/* with a writable root the folder is writable as it is */
	return s->spec->root == ROOT_OVERLAY ? 0 : bind_at(root_fd, at, root_fd, at, 0);
}

static const char *hostname_of(const struct spec *spec)
{
	return spec->hostname != NULL ? spec->hostname : "brig";
}

static int place_etc(const struct tier_start *s, int root_fd)
{
	static const char *const own[] = {"etc/hosts", "etc/hostname", "etc/resolv.conf"};
	bool gate = s->res->net != NULL;
	char from[64];
	int r;

	if (s->plan.is_host)
		return etc_fill(root_fd, s->spec, hostname_of(s->spec), gate);
	/* The image's own /etc, with the three files that speak about this sandbox covered. */
	r = make_dirs(root_fd, ".brig/made/etc");
	if (r == 0) {
		_cleanup_close_ int made =
		    openat(root_fd, ".brig/made", O_PATH | O_DIRECTORY | O_CLOEXEC);

		r = made < 0 ? -errno : etc_fill(made, s->spec, hostname_of(s->spec), gate);
	}
	for (size_t i = 0; r == 0 && i < ARRAY_LEN(own); i++) {
		(void)snprintf(from, sizeof(from), ".brig/made/%s", own[i]);
		r = cover(root_fd, from, own[i],
			  MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
	}
	return r;
}

/* What the sandbox trusts instead of the image's certificates: a file that is always there, and the usual places. */
static int place_trust(const struct tier_start *s, int root_fd)
{
	static const char *const usual[] = {"etc/ssl/certs/ca-certificates.crt", "etc/pki/tls/certs/ca-bundle.crt",
					    "etc/ssl/ca-bundle.pem", "etc/ssl/cert.pem"};
	const char *own = &TIER_TRUST_PATH[1];
	int r = s->res->trust != NULL ? put_file(root_fd, own, s->res->trust, 0444) : 0;

	for (size_t i = 0; r == 0 && s->res->trust != NULL && i < ARRAY_LEN(usual); i++)
		r = cover(root_fd, own, usual[i], MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
	return r;
}

/* Operators keep their own programs and secrets in /usr/local and /usr/src. */
static int hide_local(const struct tier_start *s, int root_fd)
{
	bool writable = s->spec->root == ROOT_OVERLAY, sudo = s->spec->sudo != SUDO_NO;
	uint64_t ro = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;
	int r;

	if (mkdirat(root_fd, "srv", 0755) < 0)
		return -errno;
	if (writable || sudo) {
		r = make_dirs(root_fd, sudo ? ".brig/local/bin" : ".brig/local");
		if (r == 0 && sudo)
			r = put_file(root_fd, ".brig/local/bin/sudo", "", 0555);
		if (r == 0)
			r = cover(root_fd, ".brig/local", "usr/local", writable ? 0 : ro);
	} else {
		r = cover(root_fd, "srv", "usr/local", ro);
	}
	return r < 0 ? r : cover(root_fd, "srv", "usr/src", ro);
}

int setup_root(struct tier_start *s, int *ret_root_fd, char *why, size_t size)
{
	static const char *const mount_points[] = {"proc", "dev", "sys", ".brig", "etc"};
	struct image_plan *p = &s->plan;
	struct writable w[8];
	uint32_t n = writables(p, w);
	_cleanup_close_ int root_fd = -1;
	int r;

	(void)snprintf(why, size, "making the root file system (tmpfs)");
	r = make_root(s->spec, &root_fd);
	if (r < 0)
		return r;
	if (fchdir(root_fd) < 0)
		return -errno;
	/* an image brings its own etc, perhaps as a link */
	for (size_t i = 0; i < ARRAY_LEN(mount_points) - (p->is_host ? 0 : 1); i++)
		if (mkdirat(root_fd, mount_points[i], mount_points[i][0] == '.' ? 0700 : 0755) < 0)
			return -errno;
	for (uint32_t i = 0; i < p->links; i++) {
		(void)snprintf(why, size, "linking /%s", p->link[i].name);
		if (symlinkat(p->link[i].target, root_fd, p->link[i].name) < 0)
			return -errno;
	}
	for (uint32_t i = 0; i < p->parts; i++) {
		(void)snprintf(why, size, "bringing '%s' of the image in", p->part[i].src);
		r = place_part(s, root_fd, &p->part[i]);
		if (r < 0)
			return r;
	}
	(void)snprintf(why, size, "filling /etc");
	r = place_etc(s, root_fd);
	if (r == 0 && p->is_host) {
		(void)snprintf(why, size, "hiding /usr/local");
		r = hide_local(s, root_fd);
	}
	for (uint32_t i = 0; r == 0 && i < n; i++) {
		(void)snprintf(why, size, "making /%s writable", w[i].path);
		r = place_writable(s, root_fd, &w[i]);
	}
	if (r == 0) {
		(void)snprintf(why, size, "placing trusted certificates");
		r = place_trust(s, root_fd);
	}
	if (r == 0 && s->spec->sudo != SUDO_NO) {
		(void)snprintf(why, size, "placing 'sudo' in /usr/local/bin of the image");
		r = setup_sudo(s, root_fd);
	}
	if (r < 0)
		return r;
	*ret_root_fd = steal_fd(&root_fd);
	return 0;
}
