#include "base/cleanup.h"
#include "base/num.h"
#include "parse/user.h"
#include "sys/call.h"
#include "tier/container/etc_priv.h"
#include "tier/container/setup_priv.h"
#include "wire/pack.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/*
 * What of the host appears in the sandbox's root: the plan is a list of binds and symbolic links,
 * made by the runner before anything is cloned.
 *
 * Image "host": /usr and what a merged-/usr system keeps beside it; of /etc only what programs need
 * to start; at /mnt the folder the caller shows to it. Image DIR: every top-level entry of that folder but those the sandbox provides itself.
 * DIR may be hostile: its entries are only named, bound and copied as link texts, never followed.
 */

/* A copy of n bytes in the plan's text; NULL when it is full. */
static const char *keep(struct image_plan *p, const char *s, size_t n)
{
	char *at = p->text + p->text_n;

	if (n >= sizeof(p->text) - p->text_n)
		return NULL;
	memcpy(at, s, n);
	at[n] = '\0';
	p->text_n += (uint32_t)n + 1;
	return at;
}

static int add_part(struct image_plan *p, const char *src, const char *dst, bool is_dir)
{
	struct image_part part = {.src = keep(p, src, strlen(src)),
				  .dst = keep(p, dst, strlen(dst)),
				  .is_dir = is_dir,
				  .shifts = strncmp(src, "/sys/", 5) != 0,
				  .fd = -1};

	if (p->parts >= IMAGE_PARTS_MAX || part.src == NULL || part.dst == NULL)
		return -E2BIG;
	p->part[p->parts++] = part;
	return 0;
}

/* Add src as dst the way it is there: folder, file or symbolic link. Missing is fine. */
static int add_as_is(struct image_plan *p, int dirfd, const char *src, const char *full,
		     const char *dst)
{
	struct image_link link;
	char target[256];
	struct stat st;
	ssize_t n;

	if (fstatat(dirfd, src, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : -errno;
	if (S_ISDIR(st.st_mode) || S_ISREG(st.st_mode))
		return add_part(p, full, dst, S_ISDIR(st.st_mode));
	if (!S_ISLNK(st.st_mode))
		return 0;
	n = readlinkat(dirfd, src, target, sizeof(target));
	if (n < 0)
		return -errno;
	if (n == (ssize_t)sizeof(target))
		return -ENAMETOOLONG;
	link = (struct image_link){.name = keep(p, dst, strlen(dst)),
				   .target = keep(p, target, (size_t)n)};
	if (p->links >= IMAGE_LINKS_MAX || link.name == NULL || link.target == NULL)
		return -E2BIG;
	p->link[p->links++] = link;
	return 0;
}

static int plan_host(const struct spec *spec, struct image_plan *p, struct err *e)
{
	static const char *const dirs[] = {"/usr",   "/bin",   "/sbin",	 "/lib",
					   "/lib64", "/lib32", "/libx32"};
	static const char *const parts[] = {"/etc/alternatives", "/etc/ssl/certs",
					    "/etc/ld.so.cache", "/sys/devices/system/cpu"};

	p->is_host = true;
	p->default_uid = p->default_gid = 1000;
	for (size_t i = 0; i < ARRAY_LEN(dirs) + ARRAY_LEN(parts); i++) {
		const char *path = i < ARRAY_LEN(dirs) ? dirs[i] : parts[i - ARRAY_LEN(dirs)];
		int r = add_as_is(p, AT_FDCWD, path, path, path + 1);

		if (r < 0)
			return err_set(e, ERR_INTERNAL, -r, "image host: %s", path);
	}
	if (spec->see != NULL && add_part(p, spec->see, "mnt", true) < 0)
		return err_set(e, ERR_INTERNAL, E2BIG, "image host: %s", spec->see);
	return 0;
}

/* Top-level names the sandbox provides itself. */
static bool is_ours(const char *name)
{
	static const char *const ours[] = {".",	  "..",	 "proc",      "dev",  "sys",
					   "tmp", "run", "workspace", ".brig"};

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
	while (r == 0 && (ent = readdir(d)) != NULL) {
		if (is_ours(ent->d_name))
			continue;
		if ((size_t)snprintf(full, sizeof(full), "%s/%s", image, ent->d_name) >=
		    sizeof(full))
			r = -ENAMETOOLONG;
		else
			r = add_as_is(p, dirfd(d), ent->d_name, full, ent->d_name);
		if (r < 0)
			(void)err_set(e, ERR_INVALID, -r,
				      "image '%s': entry '%.64s': %s (at most %d entries with "
				      "short names at its top)",
				      image, ent->d_name, strerror(-r), IMAGE_PARTS_MAX);
	}
	(void)closedir(d);
	if (r == 0)
		r = add_part(p, "/sys/devices/system/cpu", "sys/devices/system/cpu", true);
	return r;
}

/* The image's own /etc/passwd, resolved inside it. Hostile contents of bounded size; NULL = none.
 */
static char *read_passwd(const char *image, size_t *ret_n)
{
	_cleanup_close_ int dir_fd = open(image, O_PATH | O_DIRECTORY | O_CLOEXEC);
	_cleanup_close_ int fd =
	    dir_fd < 0 ? -1
		       : sys_openat2(dir_fd, "etc/passwd", O_RDONLY | O_NONBLOCK | O_NOCTTY,
				     RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS);
	struct stat st;
	char *text;
	ssize_t n;

	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size <= 0 ||
	    st.st_size > USER_FILE_MAX)
		return NULL;
	text = malloc((size_t)st.st_size);
	n = text == NULL ? -1 : read(fd, text, (size_t)st.st_size);
	if (n < 0) {
		free(text);
		return NULL;
	}
	*ret_n = (size_t)n;
	return text;
}

/*
 * The home folder, which is to be writable. The image's passwd names it, so it may be anything:
 * only an absolute path of plain form counts, and none the sandbox makes itself; "/" stands for no
 * home.
 */
static void set_home(struct image_plan *p, const char *home)
{
	static const char *const ours[] = {"/proc", "/dev", "/sys", "/.brig"};
	size_t n = strlen(home);

	while (n > 1 && home[n - 1] == '/')
		n--;
	if (n < 2 || !pack_path_ok(home + 1, n - 1))
		n = 1;
	for (size_t i = 0; i < ARRAY_LEN(ours); i++)
		if (strncmp(home, ours[i], strlen(ours[i])) == 0 &&
		    (n == strlen(ours[i]) || home[strlen(ours[i])] == '/'))
			n = 1;
	(void)snprintf(p->home, sizeof(p->home), "%.*s", (int)n, home);
}

/* Who the sandbox runs as. */
static int plan_user(const struct spec *spec, struct image_plan *p, struct err *e)
{
	const char *dflt = spec->image_user != NULL ? spec->image_user : p->is_host ? "user" : "root";
	const char *who = spec->user != NULL ? spec->user : dflt;
	_cleanup_free_ char *own = NULL;
	const char *passwd = etc_passwd;
	size_t n = strlen(passwd);
	struct user u, other;
	int r;

	if (!p->is_host) {
		n = 0;
		own = read_passwd(spec->image, &n);
		passwd = own;
	}
	r = user_find(who, strlen(who), passwd, n, &u);
	if (r < 0)
		return err_set(e, ERR_INVALID, EINVAL, "user '%.64s': %s", who,
			       r == -ENOENT ? "not in the image's /etc/passwd"
					    : "neither a name nor UID[:GID]");
	p->uid = u.uid;
	p->gid = u.gid;
	if (spec->image_user != NULL) {
		/* the one id an ordinary caller has inside */
		p->default_uid = u.uid;
		p->default_gid = u.gid;
		if (who != dflt && user_find(dflt, strlen(dflt), passwd, n, &other) == 0) {
			p->default_uid = other.uid;
			p->default_gid = other.gid;
		}
	}
	(void)snprintf(p->user, sizeof(p->user), "%s", who);
	set_home(p, u.home);
	return 0;
}

int image_plan(const struct spec *spec, struct image_plan *ret, struct err *e)
{
	int r;

	ret->parts = ret->links = ret->text_n = 0;
	ret->is_host = false;
	ret->default_uid = ret->default_gid = 0;
	r = strcmp(spec->image, "host") == 0 ? plan_host(spec, ret, e) : plan_dir(spec->image, ret, e);
	return r < 0 ? r : plan_user(spec, ret, e);
}

int image_show(struct image_plan *p, const char *src, const char *dst)
{
	return add_part(p, src, dst, false);
}

int image_open_part(struct image_part *p)
{
	int fd = sys_open_tree(AT_FDCWD, p->src,
			       OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_SYMLINK_NOFOLLOW);
	int r;

	/* A tree with mounts below it, copied into a user namespace, may only be taken whole. */
	if (fd == -EINVAL)
		fd = sys_open_tree(AT_FDCWD, p->src,
				   OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE |
				       AT_SYMLINK_NOFOLLOW);
	if (fd < 0)
		return fd;
	r = sys_mount_setattr(fd, AT_RECURSIVE,
			      MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, 0, -1);
	/* The copy is a peer of the host's mount where that is shared (systemd's default): what is
	 * mounted on it inside would appear on the host, and the host's later mounts inside. */
	if (r == 0)
		r = sys_mount_private(fd, AT_RECURSIVE);
	if (r < 0) {
		(void)close(fd);
		return r;
	}
	p->fd = fd;
	return 0;
}
