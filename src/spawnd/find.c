#include "spawnd/priv.h"

#include "base/cleanup.h"
#include "spawn/record.h"
#include "sys/call.h"
#include "sys/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/*
 * What an earlier brig-spawn left: keepers that live, whose files are locked, and files of those that do not. The folder
 * is ours alone, but whoever wrote may have been killed while writing, so what is read back is checked.
 */

int spawnd_box_folder(const char *path, int *ret_fd, char *ret, size_t size, struct err *e)
{
	_cleanup_close_ int fd = -1;
	struct stat st;
	char link[64];
	ssize_t n;
	int r = 0;

	if (path == NULL) {
		r = record_folder("box", true, &fd, e);
	} else {
		if (mkdir(path, 0711) < 0 && errno != EEXIST)
			return err_set(e, ERR_DENIED, errno, "%.150s: %s", path, strerror(errno));
		fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
		if (fd < 0)
			return err_set(e, ERR_DENIED, errno, "%.150s: %s", path, strerror(errno));
	}
	if (r < 0)
		return r;
	if (fstat(fd, &st) < 0 || st.st_uid != geteuid() || (st.st_mode & 022) != 0)
		return err_set(e, ERR_DENIED, EPERM, "the folder of sandboxes must belong to you and be writable by nobody else");
	/* who calls a sandbox must get to its socket, but sees no names */
	if (fchmod(fd, 0711) < 0)
		return err_set(e, ERR_DENIED, errno, "the folder of sandboxes: %s", strerror(errno));
	(void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, ret, size - 1);
	if (n <= 0 || (size_t)n >= size - 1)
		return err_set(e, ERR_INTERNAL, ENAMETOOLONG, "the folder of sandboxes: its name is too long");
	ret[n] = '\0';
	*ret_fd = steal_fd(&fd);
	return 0;
}

/* The value of "name=" in the lines of text, in dst; false: it is not there or no such word. */
static bool value(const char *text, const char *name, char *dst, size_t size)
{
	size_t n = strlen(name);

	for (const char *p = text; p != NULL && *p != '\0'; p = strchr(p, '\n'), p = p != NULL ? p + 1 : NULL) {
		size_t len;

		if (strncmp(p, name, n) != 0 || p[n] != '=')
			continue;
		len = strcspn(p + n + 1, "\n");
		if (len >= size)
			return false;
		memcpy(dst, p + n + 1, len);
		dst[len] = '\0';
		return true;
	}
	return false;
}

static uint64_t number(const char *text, const char *name)
{
	char word[24], *end = NULL;
	unsigned long long v;

	if (!value(text, name, word, sizeof(word)) || word[0] < '0' || word[0] > '9')
		return 0;
	errno = 0;
	v = strtoull(word, &end, 10);
	return errno != 0 || *end != '\0' ? 0 : v;
}

static bool held(int fd)
{
	if (flock(fd, LOCK_EX | LOCK_NB) == 0) {
		(void)flock(fd, LOCK_UN);
		return false;
	}
	return errno == EWOULDBLOCK;
}

/* Its keeper lives: it is ours again. The lock is looked at once more behind the pidfd, so that the number cannot be
 * somebody else's by now. */
static int adopt(struct server *s, const char *id, int fd)
{
	char text[512], word[16];
	ssize_t n = pread(fd, text, sizeof(text) - 1, 0);
	_cleanup_close_ int pidfd = -1;
	uint64_t pid;
	struct box *b;

	if (n <= 0)
		return -ESRCH; /* killed before it wrote, or about to */
	text[n] = '\0';
	pid = number(text, "pid");
	pidfd = pid > 1 && pid < INT32_MAX ? sys_pidfd_open((pid_t)pid) : -1;
	if (pidfd < 0 || !held(fd))
		return -ESRCH;
	b = box_new(s, id);
	if (b == NULL)
		return -ENOMEM;
	b->pid = (pid_t)pid;
	b->time_ms = number(text, "time_ms");
	if (!value(text, "template", b->template, sizeof(b->template)) || !value(text, "tenant", b->tenant, sizeof(b->tenant)))
		b->template[0] = b->tenant[0] = '\0';
	b->state = value(text, "ready", word, sizeof(word)) ? BOX_LIVE : BOX_STARTING;
	s->alive++;
	if (b->state == BOX_STARTING) { /* with nobody to tell it has started it ends by itself */
		s->starting++;
		b->due_ms = loop_clock_ms() + READY_MS;
	}
	return box_watch(b, steal_fd(&pidfd), -1);
}

/* NAME with this end: its id. */
static bool id_of(const char *name, const char *suffix, char id[SPAWND_ID_MAX + 4])
{
	size_t n = strlen(name), m = strlen(suffix);

	if (n <= m || n - m > SPAWND_ID_MAX || strcmp(name + n - m, suffix) != 0)
		return false;
	memcpy(id, name, n - m);
	id[n - m] = '\0';
	return spawnd_id_ok(id);
}

static int found_box(struct server *s, const char *name, const char *id)
{
	_cleanup_close_ int fd = openat(s->a->box_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	char file[BOX_FILE_MAX];
	int r = fd >= 0 && held(fd) ? adopt(s, id, fd) : -ESRCH;

	if (r != -ESRCH)
		return r;
	(void)unlinkat(s->a->box_fd, name, 0);
	(void)unlinkat(s->a->box_fd, box_file(id, ".sock", file), 0);
	return 0;
}

static int found_end(struct server *s, const char *name, const char *id)
{
	struct stat st;
	struct box *b;

	if (box_find(s, id) != NULL || fstatat(s->a->box_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return 0;
	b = box_new(s, id);
	if (b == NULL)
		return -ENOMEM;
	b->state = BOX_OVER;
	b->time_ms = (uint64_t)st.st_mtim.tv_sec * 1000;
	s->overs++;
	return 0;
}

static int scan(struct server *s, const char *suffix, int (*found)(struct server *, const char *, const char *))
{
	int fd = openat(s->a->box_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), r = 0;
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *ent;

	if (d == NULL) {
		r = -errno;
		if (fd >= 0)
			(void)close(fd);
		return r;
	}
	while (r == 0 && (ent = readdir(d)) != NULL) {
		char id[SPAWND_ID_MAX + 4];

		if (id_of(ent->d_name, suffix, id))
			r = found(s, ent->d_name, id);
	}
	(void)closedir(d);
	return r;
}

int find_boxes(struct server *s, struct err *e)
{
	int r = scan(s, ".box", found_box);

	if (r == 0)
		r = scan(s, ".end", found_end);
	return r < 0 ? err_set(e, ERR_INTERNAL, -r, "the folder of sandboxes: %s", strerror(-r)) : 0;
}
