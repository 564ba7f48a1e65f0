#include "guest/probe.h"

#include "base/cleanup.h"
#include "base/num.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>

/*
 * What a command finds around it: /proc, limits, descriptors, the network. Runs in a process that
 * went through every step of a command's start but execve(2). Nothing is written anywhere, and
 * nothing could leave the machine should the network be open: the addresses are those kept for
 * documentation, not routed on the internet.
 */

static uint8_t covered(const char *path)
{
	struct stat st;

	if (stat(path, &st) < 0)
		return errno == ENOENT ? PROBE_ABSENT : PROBE_SHUT;
	return S_ISCHR(st.st_mode) && st.st_rdev == makedev(1, 3) ? PROBE_SHUT : PROBE_OPEN;
}

static uint8_t sealed(const char *path)
{
	struct statvfs fs;

	if (statvfs(path, &fs) < 0)
		return errno == ENOENT ? PROBE_ABSENT : PROBE_SHUT;
	return (fs.f_flag & ST_RDONLY) != 0 ? PROBE_SHUT : PROBE_OPEN;
}

/* As getdents64(2) has it. */
struct entry {
	uint64_t ino, off;
	uint16_t len;
	uint8_t type;
	char name[];
};

/* Entries of a folder that are numbers and for which `counts` holds. By the plain call: the C
 * library's buffer would be taken from and given back to the kernel each time. */
static uint32_t count_numbers(const char *path, bool (*counts)(int))
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	uint32_t n = 0;
	long got;

	while (fd >= 0 && (got = syscall(SYS_getdents64, fd, probe_text, sizeof(probe_text))) > 0) {
		for (const char *at = probe_text; at < probe_text + got;) {
			const struct entry *e = (const struct entry *)(const void *)at;

			n += isdigit((unsigned char)e->name[0]) &&
			     counts((int)strtol(e->name, NULL, 10));
			at += e->len;
		}
	}
	return n;
}

static bool is_pid(int nr) { return nr > 0; }

/* A descriptor that execve(2) leaves open. */
static bool is_kept(int fd)
{
	int flags = fd > 2 ? fcntl(fd, F_GETFD) : FD_CLOEXEC;

	return flags >= 0 && (flags & FD_CLOEXEC) == 0;
}

union address {
	struct sockaddr any;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
};

/* A query for the address of example.com (RFC 1035, section 4). */
static const uint8_t query[] = "\x42\x52\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x07"
			       "example\x03"
			       "com\x00\x00\x01\x00\x01";

static uint32_t reach(int family, int type, uint16_t port)
{
	_cleanup_close_ int fd = socket(family, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	union address to = {.any = {.sa_family = (sa_family_t)family}};
	socklen_t len = family == AF_INET ? sizeof(to.in) : sizeof(to.in6);

	if (fd < 0)
		return (uint32_t)errno;
	if (family == AF_INET) {
		to.in.sin_port = htons(port);
		(void)inet_pton(AF_INET, "192.0.2.1", &to.in.sin_addr);
	} else {
		to.in6.sin6_port = htons(port);
		(void)inet_pton(AF_INET6, "2001:db8::1", &to.in6.sin6_addr);
	}
	if (connect(fd, &to.any, len) < 0)
		return errno == EINPROGRESS ? 0 : (uint32_t)errno;
	if (type == SOCK_DGRAM && send(fd, query, sizeof(query) - 1, MSG_NOSIGNAL) < 0)
		return (uint32_t)errno;
	return 0;
}

static void limits(struct probe_command *c)
{
	struct rlimit l[PROBE_LIMITS];
	int i = 0;

	for (int k = 0; k < PROBE_LIMITS; k++)
		l[k] = (struct rlimit){.rlim_cur = RLIM_INFINITY, .rlim_max = RLIM_INFINITY};
#define LIMIT(id, name, soft, hard) (void)getrlimit(RLIMIT_##id, &l[i++]);
#include "wire/probe_facts.def"
#undef LIMIT
	for (i = 0; i < PROBE_LIMITS; i++) {
		c->soft[i] = l[i].rlim_cur;
		c->hard[i] = l[i].rlim_max;
	}
}

/* The root's file system is where everything the sandbox may write lies. */
static void room(struct probe_command *c)
{
	struct statfs fs;

	if (statfs("/workspace", &fs) < 0)
		return;
	c->disk = (uint64_t)fs.f_blocks * (uint64_t)fs.f_bsize;
	c->inodes = fs.f_files;
}

void probe_command(struct probe_command *c, int outside_fd, bool try_net)
{
	int i = 0, fd;

	c->fds = count_numbers("/proc/self/fd", is_kept);
	probe_task(&c->task, outside_fd);
	c->pids = count_numbers("/proc", is_pid);
	fd = open("/proc/sys/kernel/core_pattern", O_WRONLY | O_CLOEXEC);
	c->sys_open = fd < 0 ? (uint32_t)errno : 0;
	if (fd >= 0)
		(void)close(fd);
#define COVERED(id, name) c->covered[i++] = covered("/proc/" name);
#include "wire/probe_facts.def"
#undef COVERED
	i = 0;
#define SEALED(name) c->sealed[i++] = sealed("/proc/" #name);
#include "wire/probe_facts.def"
#undef SEALED
	i = 0;
#define REACH(id, name, family, type, port) c->reach[i++] = try_net ? reach(family, type, port) : PROBE_UNTRIED;
#include "wire/probe_facts.def"
#undef REACH
	limits(c);
	room(c);
}
