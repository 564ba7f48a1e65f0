#include "base/cleanup.h"
#include "base/num.h"
#include "image/contents.h"
#include "image/unpack_priv.h"
#include "sys/file.h"
#include "sys/ids.h"

#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/*
 * The unpacker. It reads a hostile stream and writes below one folder, in a process that can do nothing
 * else (jail.c). A path is walked by openat2(2) with RESOLVE_BENEATH and RESOLVE_NO_SYMLINKS, so a link in
 * the stream leads nowhere, also not one that replaced a folder: nothing is replaced at all, an entry that
 * is there already refuses the stream, but for folders, whose later entry sets mode, owner and time.
 *
 * Contents are digested while they are written, so nothing is read a second time for the image's digest.
 */

enum { BYTES_GIB = 64, ENTRIES_MAX = 4000000, PROGRESS_STEP = 8 * 1024 * 1024 };

static int taken(struct unpack *u, const struct tar_entry *t)
{
	return errno == EEXIST ? unpack_refuse(u, t->path, "the same name twice") : unpack_broke(u, t->path, -errno);
}

static int copy_contents(struct unpack *u, const struct tar_entry *t, int fd, uint8_t sum[CONTENTS_SUM])
{
	crypto_hash_sha256_state h;
	uint64_t left = t->size;
	int r;

	(void)crypto_hash_sha256_init(&h);
	while (left > 0) {
		const uint8_t *p;
		ssize_t n = unpack_some(u, &p, (size_t)MIN(left, (uint64_t)UNPACK_IN_SIZE));

		if (n < 0)
			return (int)n;
		if (n == 0)
			return unpack_cut_off(u, t->path);
		r = file_write_all(fd, p, (size_t)n);
		if (r < 0)
			return unpack_broke(u, t->path, r);
		(void)crypto_hash_sha256_update(&h, p, (unsigned long long)n);
		left -= (uint64_t)n;
	}
	r = unpack_skip_padding(u, t->size);
	if (r == 0)
		(void)crypto_hash_sha256_final(&h, sum);
	return r;
}

static int put_file(struct unpack *u, const struct tar_entry *t, int dirfd, const char *name)
{
	_cleanup_close_ int fd =
	    openat(dirfd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = t->mtime}};
	uint8_t sum[CONTENTS_SUM];
	struct stat st;
	int r;

	if (fd < 0)
		return taken(u, t);
	r = copy_contents(u, t, fd, sum);
	if (r < 0)
		return r;
	/* the owner first: changing it clears the setuid bit */
	if ((u->owners && fchown(fd, t->uid, t->gid) < 0) || fchmod(fd, t->mode) < 0 || futimens(fd, times) < 0 ||
	    fstat(fd, &st) < 0)
		return unpack_broke(u, t->path, -errno);
	contents_put(u->known, st.st_dev, st.st_ino, sum);
	return 0;
}

static int put_symlink(struct unpack *u, const struct tar_entry *t, int dirfd, const char *name)
{
	struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = t->mtime}};

	if (symlinkat(t->target, dirfd, name) < 0)
		return taken(u, t);
	if ((u->owners && fchownat(dirfd, name, t->uid, t->gid, AT_SYMLINK_NOFOLLOW) < 0) ||
	    utimensat(dirfd, name, times, AT_SYMLINK_NOFOLLOW) < 0)
		return unpack_broke(u, t->path, -errno);
	return 0;
}

/* To a file or link that came before in the same stream. */
static int put_hardlink(struct unpack *u, struct tar_entry *t, int dirfd, const char *name)
{
	char *slash = strrchr(t->target, '/');
	const char *last = slash != NULL ? slash + 1 : t->target;
	_cleanup_close_ int from = -1;
	struct stat st;

	if (slash != NULL)
		*slash = '\0';
	from = unpack_beneath(u->root, slash != NULL ? t->target : "");
	if (from < 0 || fstatat(from, last, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return unpack_refuse(u, t->path, "a hard link to something that did not come before");
	if (!S_ISREG(st.st_mode) && !S_ISLNK(st.st_mode))
		return unpack_refuse(u, t->path, "a hard link to something that is no file");
	return linkat(from, last, dirfd, name, 0) < 0 ? taken(u, t) : 0;
}

static int put_entry(struct unpack *u, struct tar_entry *t)
{
	const char *name;
	int dirfd;

	if (t->path[0] == '\0') /* the root itself */
		return unpack_note_folder(u, t);
	dirfd = unpack_parent(u, t->path, &name);
	if (dirfd == -ELOOP || dirfd == -ENOTDIR || dirfd == -EXDEV)
		return unpack_refuse(u, t->path, "its path leads through something that is no folder");
	if (dirfd < 0)
		return unpack_broke(u, t->path, dirfd);
	switch (t->type) {
	case TAR_DIR:
		return unpack_put_folder(u, t, dirfd, name);
	case TAR_FILE:
		return put_file(u, t, dirfd, name);
	case TAR_SYMLINK:
		return put_symlink(u, t, dirfd, name);
	case TAR_HARDLINK:
		return put_hardlink(u, t, dirfd, name);
	case TAR_SPECIAL:
		u->st->left_out++;
		return 0;
	}
	return 0;
}

static int count(struct unpack *u, const struct tar_entry *t)
{
	if (++u->st->entries > u->lim.entries)
		return err_set(u->e, ERR_LIMITED, E2BIG, "more than %llu entries",
			       (unsigned long long)u->lim.entries);
	if (t->size > u->lim.bytes || u->st->bytes > u->lim.bytes - t->size)
		return err_set(u->e, ERR_LIMITED, EFBIG, "more than %llu bytes",
			       (unsigned long long)u->lim.bytes);
	u->st->bytes += t->size;
	if (u->owners && (t->uid > 65535 || t->gid > 65535))
		return unpack_refuse(u, t->path, "an owner outside 0 to 65535, the ids of a sandbox");
	if (u->fn != NULL && u->st->bytes - u->told >= PROGRESS_STEP) {
		u->told = u->st->bytes;
		u->fn(u->arg, u->st->bytes, u->st->entries);
	}
	return 0;
}

static int read_meta(struct unpack *u, size_t n, const char **why)
{
	_cleanup_free_ uint8_t *p = malloc(n);
	int r;

	if (p == NULL)
		return unpack_broke(u, "", -ENOMEM);
	r = unpack_all_of(u, p, n);
	if (r < 0)
		return r;
	if (r == 0)
		return unpack_cut_off(u, u->entry.path);
	if (tar_meta(&u->tar, p, n, why) < 0)
		return unpack_refuse(u, u->entry.path, *why);
	return unpack_skip_padding(u, n);
}

static int unpack_all(struct unpack *u)
{
	for (;;) {
		uint8_t block[TAR_BLOCK];
		const char *why = "unknown";
		size_t meta = 0;
		int r = unpack_all_of(u, block, sizeof(block));

		if (r < 0)
			return r;
		if (r == 0)
			return u->tar.ended ? 0 : unpack_cut_off(u, u->entry.path);
		r = tar_header(&u->tar, block, &u->entry, &meta, &why);
		if (r < 0)
			return unpack_refuse(u, u->entry.path, why);
		if (r == TAR_ENTRY && (r = count(u, &u->entry)) == 0)
			r = put_entry(u, &u->entry);
		else if (r == TAR_META)
			r = read_meta(u, meta, &why);
		if (r < 0)
			return r;
	}
}

int intake_unpack(int tar_fd, int dirfd, const struct image_limits *lim, image_progress fn, void *arg,
		  struct contents *known, struct image_stats *st, struct err *e)
{
	_cleanup_free_ struct unpack *u = calloc(1, sizeof(*u));
	_cleanup_free_ uint8_t *buf = malloc(UNPACK_IN_SIZE);
	int r;

	if (u == NULL || buf == NULL)
		return err_no_memory(e);
	*u = (struct unpack){.in = tar_fd, .root = dirfd, .owners = ids_host_root(), .buf = buf, .parent_fd = -1,
			     .known = known, .st = st, .fn = fn, .arg = arg, .e = e};
	u->lim.bytes = lim->bytes != 0 ? lim->bytes : (uint64_t)BYTES_GIB << 30;
	u->lim.entries = lim->entries != 0 ? lim->entries : ENTRIES_MAX;
	*st = (struct image_stats){0};
	u->entry = (struct tar_entry){.type = TAR_DIR, .mode = 0755}; /* a root the stream does not describe */
	r = unpack_note_folder(u, &u->entry);
	if (r == 0)
		r = unpack_all(u);
	if (r == 0 && st->entries == 0)
		r = err_set(e, ERR_INVALID, EINVAL, "the stream is refused: it holds nothing");
	if (r == 0)
		r = unpack_finish_folders(u);
	if (u->parent_fd >= 0)
		(void)close(u->parent_fd);
	unpack_forget_folders(u);
	return r;
}
