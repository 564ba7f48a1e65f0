#include "guest/entry.h"

#include "base/num.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

/* Runs in a worker, as the request's user, over whatever the sandbox made. Attributes of one file are told as far as
 * XATTRS_MAX bytes go, so that a record never grows past its limit. */

enum { XATTRS_MAX = 6 * 1024, NAMES_MAX = 16 * 1024, VALUE_MAX = 4096, NAME_BYTES = 256 };

void entry_names_done(struct entry_names *n)
{
	free(n->passwd);
	free(n->group);
	*n = (struct entry_names){.tried = false};
}

static void put_name(struct msg_writer *rec, enum msg_field f, const char *name)
{
	if (name[0] != '\0' && strlen(name) <= 64)
		msg_str(rec, f, name);
}

static void put_owner(struct entry_names *names, struct msg_writer *rec, const struct stat *st, bool detail)
{
	char name[USER_STR_MAX];

	if (!names->tried) {
		names->passwd = user_read_file("/etc/passwd", &names->passwd_n);
		if (detail)
			names->group = user_read_file("/etc/group", &names->group_n);
	}
	names->tried = true;
	user_name_of(names->passwd, names->passwd_n, st->st_uid, name);
	put_name(rec, F_OWNER, name);
	if (!detail)
		return;
	user_group_name_of(names->group, names->group_n, st->st_gid, name);
	put_name(rec, F_GROUP, name);
}

static bool wanted(const struct ask *q, const char *name)
{
	return q->xattrs.p != NULL && strncmp(name, (const char *)q->xattrs.p, q->xattrs.n) == 0;
}

static void put_xattrs(const struct worker *w, struct msg_writer *rec, const char *path)
{
	static char names[NAMES_MAX], pair[NAME_BYTES + VALUE_MAX];
	ssize_t n = w->ask->xattrs.p != NULL ? llistxattr(path, names, sizeof(names)) : -1;
	size_t spent = 0;

	for (const char *name = names; n > 0 && name < names + n; name += strlen(name) + 1) {
		size_t len = strlen(name);
		ssize_t got;

		if (!wanted(w->ask, name) || len + 1 > NAME_BYTES)
			continue;
		memcpy(pair, name, len);
		pair[len] = '=';
		got = lgetxattr(path, name, pair + len + 1, VALUE_MAX);
		if (got < 0 || spent + len + 1 + (size_t)got > XATTRS_MAX)
			continue;
		spent += len + 1 + (size_t)got;
		msg_bytes(rec, F_XATTR, pair, len + 1 + (size_t)got);
	}
}

static void put_real(struct msg_writer *rec, const char *path)
{
	char real[PATH_MAX];
	struct stat st;

	if (realpath(path, real) == NULL)
		return;
	msg_str(rec, F_REAL, real);
	if (lstat(real, &st) < 0)
		return;
	msg_u64(rec, F_REAL_TYPE, IFTODT(st.st_mode));
	msg_u64(rec, F_REAL_MODE, st.st_mode & 07777);
}

static void put_detail(const struct worker *w, struct msg_writer *rec, const char *shown, const struct stat *st)
{
	char path[2 * 4096];

	(void)snprintf(path, sizeof(path), "%s%s%s", w->path, *shown != '\0' ? "/" : "", shown);
	if (S_ISLNK(st->st_mode))
		put_real(rec, path);
	else
		put_xattrs(w, rec, path);
}

void entry_put(const struct worker *w, struct entry_names *names, struct msg_writer *rec, int at, const char *name,
	       const char *shown, const struct stat *st)
{
	bool detail = (w->ask->flags & REQ_DETAIL) != 0;

	msg_u64(rec, F_TYPE, IFTODT(st->st_mode));
	msg_u64(rec, F_SIZE, (uint64_t)st->st_size);
	msg_u64(rec, F_MODE, st->st_mode & 07777);
	msg_u64(rec, F_UID, st->st_uid);
	msg_u64(rec, F_GID, st->st_gid);
	if (st->st_mtim.tv_sec >= 0 && st->st_mtim.tv_sec < INT64_MAX / 1000000000 - 1)
		msg_u64(rec, F_MTIME, (uint64_t)st->st_mtim.tv_sec * 1000000000u + (uint64_t)st->st_mtim.tv_nsec);
	msg_u64(rec, F_BLOCKS, (uint64_t)st->st_blocks * 512);
	if (S_ISLNK(st->st_mode)) {
		char target[4096];
		ssize_t n = readlinkat(at, name, target, sizeof(target));

		if (n >= 0 && (size_t)n < sizeof(target))
			msg_bytes(rec, F_TARGET, target, (size_t)n);
	}
	put_owner(names, rec, st, detail);
	if (detail)
		put_detail(w, rec, shown, st);
}

/* ---- writing ---- */

static int set_one(const struct worker *w, int fd, const struct msg_item *it)
{
	char name[NAME_BYTES];
	const uint8_t *eq = memchr(it->data, '=', it->len);
	size_t n = eq != NULL ? (size_t)(eq - it->data) : 0;

	if (eq == NULL || n >= sizeof(name) || memchr(it->data, '\0', n) != NULL)
		return -EINVAL;
	memcpy(name, it->data, n);
	name[n] = '\0';
	if (!wanted(w->ask, name))
		return -EINVAL;
	return fsetxattr(fd, name, eq + 1, it->len - n - 1, 0) < 0 ? -errno : 0;
}

int entry_set_xattrs(const struct worker *w, int fd)
{
	static char names[NAMES_MAX];
	struct msg_reader r = msg_reader(w->ask->msg, w->ask->msg_len);
	struct msg_item it;
	ssize_t n = w->ask->xattrs.p != NULL ? flistxattr(fd, names, sizeof(names)) : 0;
	int ret = 0;

	for (const char *name = names; n > 0 && name < names + n; name += strlen(name) + 1)
		if (wanted(w->ask, name) && fremovexattr(fd, name) < 0)
			return -errno;
	while (ret == 0 && msg_next(&r, &it) > 0)
		if (it.field == F_XATTR)
			ret = set_one(w, fd, &it);
	return ret;
}
