#include "base/cleanup.h"
#include "image/unpack_priv.h"
#include "sys/call.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/*
 * The unpacker's folders. Modes, owners and times are set at the end, deepest first: what is written into a folder
 * changes its time, and its mode may forbid the writing. One that nobody described gets what every machine gives it.
 */

int unpack_beneath(int dirfd, const char *path)
{
	return sys_openat2(dirfd, path[0] == '\0' ? "." : path, O_PATH | O_DIRECTORY | O_CLOEXEC,
			   RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS);
}

int unpack_note_folder(struct unpack *u, const struct tar_entry *t)
{
	if (u->folders_n == u->folders_cap) {
		size_t cap = u->folders_cap == 0 ? 256 : u->folders_cap * 2;
		struct folder *v = realloc(u->folders, cap * sizeof(*v));

		if (v == NULL)
			return unpack_broke(u, t->path, -ENOMEM);
		u->folders = v;
		u->folders_cap = cap;
	}
	u->folders[u->folders_n] = (struct folder){
	    .path = strdup(t->path), .turn = u->folders_n, .mode = t->mode, .uid = t->uid, .gid = t->gid, .mtime = t->mtime};
	if (u->folders[u->folders_n].path == NULL)
		return unpack_broke(u, t->path, -ENOMEM);
	u->folders_n++;
	return 0;
}

/* A folder nobody described: 0755, of root, at the epoch, so that the digest does not depend on the clock. */
static int make_parents(struct unpack *u, const char *path)
{
	char part[TAR_PATH_MAX];
	size_t n = strlen(path);

	for (size_t i = 1; i <= n; i++) {
		_cleanup_close_ int fd = -1;
		struct tar_entry t = {.type = TAR_DIR, .mode = 0755};
		char *slash;

		if (path[i] != '/' && path[i] != '\0')
			continue;
		memcpy(part, path, i);
		part[i] = '\0';
		memcpy(t.path, part, i + 1);
		slash = strrchr(part, '/');
		if (slash != NULL)
			*slash = '\0';
		fd = unpack_beneath(u->root, slash != NULL ? part : "");
		if (fd < 0)
			return fd;
		if (mkdirat(fd, slash != NULL ? slash + 1 : part, 0700) == 0) {
			int r = unpack_note_folder(u, &t);

			if (r < 0)
				return r;
		} else if (errno != EEXIST) {
			return -errno;
		}
	}
	return 0;
}

int unpack_parent(struct unpack *u, char *path, const char **ret_name)
{
	char *slash = strrchr(path, '/');
	int r;

	*ret_name = slash != NULL ? slash + 1 : path;
	if (slash != NULL)
		*slash = '\0';
	if (u->parent_fd >= 0 && strcmp(u->parent, slash != NULL ? path : "") == 0) {
		r = u->parent_fd;
	} else {
		if (u->parent_fd >= 0)
			(void)close(steal_fd(&u->parent_fd));
		r = unpack_beneath(u->root, slash != NULL ? path : "");
		if (r == -ENOENT && slash != NULL && (r = make_parents(u, path)) == 0)
			r = unpack_beneath(u->root, path);
		u->parent_fd = r;
		(void)snprintf(u->parent, sizeof(u->parent), "%s", slash != NULL ? path : "");
	}
	if (slash != NULL)
		*slash = '/';
	return r;
}

int unpack_put_folder(struct unpack *u, const struct tar_entry *t, int dirfd, const char *name)
{
	struct stat st;

	if (mkdirat(dirfd, name, 0700) < 0) {
		if (errno != EEXIST)
			return unpack_broke(u, t->path, -errno);
		if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISDIR(st.st_mode))
			return unpack_refuse(u, t->path, "it is there already, and no folder");
	}
	return unpack_note_folder(u, t);
}

static int by_path(const void *a, const void *b)
{
	const struct folder *x = a, *y = b;
	int c = strcmp(x->path, y->path);

	return c != 0 ? c : x->turn < y->turn ? -1 : 1;
}

/* From the end of the sorted list, which is deepest first; of the same folder twice the later entry counts. */
int unpack_finish_folders(struct unpack *u)
{
	qsort(u->folders, u->folders_n, sizeof(*u->folders), by_path);
	for (size_t i = u->folders_n; i-- > 0;) {
		const struct folder *f = &u->folders[i];
		struct timespec t[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = f->mtime}};
		_cleanup_close_ int path_fd = -1, fd = -1;

		if (i + 1 < u->folders_n && strcmp(f->path, f[1].path) == 0)
			continue;
		path_fd = unpack_beneath(u->root, f->path);
		fd = path_fd < 0 ? -1 : openat(path_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (fd < 0 || (u->owners && fchown(fd, f->uid, f->gid) < 0) || futimens(fd, t) < 0 ||
		    fchmod(fd, f->mode) < 0)
			return unpack_broke(u, f->path, path_fd < 0 ? path_fd : -errno);
	}
	return 0;
}

void unpack_forget_folders(struct unpack *u)
{
	for (size_t i = 0; i < u->folders_n; i++)
		free(u->folders[i].path);
	free(u->folders);
}
