#include "guest/probe.h"

#include "base/num.h"
#include "sys/raw.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>

/*
 * What is bound to namespaces and not to a process: what of /proc is covered, the room, the
 * network. PID 1 looks, which may do whatever the command may; that the command is in the same
 * namespaces is compared. Nothing is written anywhere, and nothing could leave the machine should
 * the network be open: the addresses are those kept for documentation, not routed on the internet.
 * By plain system calls, which cost least.
 */

static uint8_t covered(const char *path)
{
	struct stat st = {0};
	long r = raw_call(SYS_newfstatat, AT_FDCWD, (long)path, (long)&st, 0, 0);

	if (r < 0)
		return r == -ENOENT ? PROBE_ABSENT : PROBE_SHUT;
	return S_ISCHR(st.st_mode) && st.st_rdev == makedev(1, 3) ? PROBE_SHUT : PROBE_OPEN;
}

static uint8_t sealed(const char *path)
{
	const uint64_t rdonly = 1; /* ST_RDONLY, statfs(2) */
	struct statfs fs = {0};
	long r = raw_call(SYS_statfs, (long)path, (long)&fs, 0, 0, 0);

	if (r < 0)
		return r == -ENOENT ? PROBE_ABSENT : PROBE_SHUT;
	return ((uint64_t)fs.f_flags & rdonly) != 0 ? PROBE_SHUT : PROBE_OPEN;
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

/* 192.0.2.1 and 2001:db8::1 */
static size_t address_of(int family, uint16_t port, union address *ret)
{
	*ret = (union address){.any = {.sa_family = (sa_family_t)family}};
	if (family == AF_INET) {
		ret->in.sin_port = htons(port);
		ret->in.sin_addr.s_addr = htonl(0xc0000201);
		return sizeof(ret->in);
	}
	ret->in6.sin6_port = htons(port);
	ret->in6.sin6_addr = (struct in6_addr){.s6_addr = {0x20, 0x01, 0x0d, 0xb8, [15] = 1}};
	return sizeof(ret->in6);
}

static uint32_t reach(int family, int type, uint16_t port)
{
	int fd = (int)raw_call(SYS_socket, family, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, 0, 0);
	union address to;
	size_t len = address_of(family, port, &to);
	long r;

	if (fd < 0)
		return (uint32_t)-fd;
	r = raw_call(SYS_connect, fd, (long)&to, (long)len, 0, 0);
	if (r == 0 && type == SOCK_DGRAM)
		r = raw_send(fd, query, sizeof(query) - 1);
	raw_close(fd);
	return r < 0 && r != -EINPROGRESS ? (uint32_t)-r : 0;
}

/* The root's file system is where everything the sandbox may write lies. */
static void room(struct probe_world *w)
{
	struct statfs fs = {0};

	if (raw_call(SYS_statfs, (long)"/workspace", (long)&fs, 0, 0, 0) < 0)
		return;
	w->disk = (uint64_t)fs.f_blocks * (uint64_t)fs.f_bsize;
	w->inodes = fs.f_files;
}

void probe_world(struct probe_world *w, bool try_net)
{
	int i = 0;

#define COVERED(id, name) w->covered[i++] = covered("/proc/" name);
#include "wire/probe_facts.def"
#undef COVERED
	i = 0;
#define SEALED(name) w->sealed[i++] = sealed("/proc/" #name);
#include "wire/probe_facts.def"
#undef SEALED
	i = 0;
#define REACH(id, name, family, type, port)                                                        \
	w->reach[i++] = try_net ? reach(family, type, port) : PROBE_UNTRIED;
#include "wire/probe_facts.def"
#undef REACH
	room(w);
}
