/*
 * Changes the image a sandbox is made of. All its files are the attack's own and writable by everybody; only the mounts
 * and what a descriptor of them allows keep them as they are.
 *
 * group: files
 * tries: change the image's files: open, reopen by /proc/self/fd, rename, exchange, link out, delete, modes, times,
 *   attributes, shared mappings, a parent exchanged while a path is walked
 * control: plain
 * run: --image {image}
 * shows: image-changed
 * overlay-is-own: yes
 */
#include <linux/fs.h>
#include <sys/mman.h>
#include <sys/xattr.h>

#include "attack.h"

static char top[300]; /* of the image: "" inside */

static const char *in_image(const char *name)
{
	static char path[2][400];
	static int turn;

	turn ^= 1;
	(void)snprintf(path[turn], sizeof(path[turn]), "%s/usr/open/%s", top, name);
	return path[turn];
}

static long reopen(void)
{
	char path[64];
	int fd = open(in_image("file"), O_RDONLY | O_CLOEXEC);

	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return open(path, O_WRONLY | O_CLOEXEC);
}

static long mapped(void)
{
	int fd = open(in_image("file"), O_RDWR | O_CLOEXEC);
	char *p = fd < 0 ? MAP_FAILED : mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);

	if (p == MAP_FAILED || mprotect(p, 4096, PROT_READ | PROT_WRITE) < 0)
		return -1;
	p[0] = 'M';
	return 0;
}

static long nameless(void)
{
	int fd = open(in_image("."), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

	return fd < 0 ? -1 : linkat(AT_FDCWD, "/proc/self/fd/3", AT_FDCWD, in_image("new"), AT_SYMLINK_FOLLOW), fd;
}

/* Writes through a path whose middle changes between a folder of ours and a link to the image's. */
static long exchange(void)
{
	char dir[] = "/tmp/raceXXXXXX", a[64], b[64], file[80];
	pid_t pid;
	long r = -1;

	if (!mkdtemp(dir))
		return -1;
	(void)snprintf(a, sizeof(a), "%s/a", dir);
	(void)snprintf(b, sizeof(b), "%s/b", dir);
	(void)snprintf(file, sizeof(file), "%s/a/file", dir);
	if (mkdir(a, 0700) < 0 || symlink(in_image("."), b) < 0)
		return -1;
	pid = fork();
	if (pid == 0)
		for (;;)
			(void)syscall(SYS_renameat2, AT_FDCWD, a, AT_FDCWD, b, RENAME_EXCHANGE);
	for (int64_t end = now_ms() + 700; r < 0 && now_ms() < end;) {
		int fd = open(file, O_WRONLY | O_APPEND | O_CLOEXEC);

		if (fd >= 0) {
			r = write(fd, "raced\n", 6);
			(void)close(fd);
		}
	}
	(void)kill(pid, SIGKILL);
	(void)waitpid(pid, NULL, 0);
	(void)(unlink(a) < 0 ? rmdir(a) : unlink(b) < 0 ? rmdir(b) : 0);
	(void)(unlink(b) < 0 ? rmdir(b) : 0);
	(void)rmdir(dir);
	return r;
}

int main(int argc, char **argv)
{
	static const struct timespec old[2] = {{1, 0}, {1, 0}};

	(void)argc;
	(void)snprintf(top, sizeof(top), "%s", param(argv, "image"));
	if (access(top, F_OK) < 0)
		top[0] = 0;
	tried("exchange", exchange());
	tried("write", open(in_image("file"), O_WRONLY | O_APPEND | O_CLOEXEC));
	tried("reopen", reopen());
	tried("mapped", mapped());
	tried("truncate", truncate(in_image("file"), 0));
	tried("create", open(in_image("created"), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
	tried("nameless", nameless());
	tried("mode", chmod(in_image("file"), 04777));
	tried("times", utimensat(AT_FDCWD, in_image("file"), old, 0));
	tried("attribute", setxattr(in_image("file"), "user.escape", "x", 1, 0));
	tried("link", link(in_image("file"), in_image("linked")));
	tried("rename", rename(in_image("file"), in_image("renamed")));
	tried("delete", unlink(in_image(top[0] ? "renamed" : "file")));
	tried("folder", mkdir(in_image("folder"), 0700));
	return ended();
}
