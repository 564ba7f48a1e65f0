#include "guest/probe.h"

#include "base/cleanup.h"
#include "base/num.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

/*
 * One process as the kernel sees it. Identity, capabilities and filter are what /proc/self/status
 * says; the system calls of probe_calls.def are really made, with arguments that do nothing should
 * they be let through. Fed by the kernel only.
 */

char probe_text[PROBE_TEXT_MAX] __attribute__((aligned(8)));

size_t probe_read(const char *path)
{
	const size_t size = sizeof(probe_text);
	char *dst = probe_text;

	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	size_t n = 0;
	ssize_t got = 1;

	while (fd >= 0 && got > 0 && n < size - 1) {
		got = read(fd, dst + n, size - 1 - n);
		if (got > 0)
			n += (size_t)got;
	}
	dst[n] = '\0';
	return n;
}

/* The text after "\nNAME:\t" of a status file, "" when there is no such line. */
static const char *line_of(const char *status, const char *name)
{
	char key[32];
	const char *at;

	(void)snprintf(key, sizeof(key), "\n%s:\t", name);
	at = strstr(status, key);
	return at == NULL ? "" : at + strlen(key);
}

static void ids(const char *text, uint32_t dst[3])
{
	char *end;

	for (int i = 0; i < 3; i++) {
		dst[i] = (uint32_t)strtoul(text, &end, 10);
		text = end;
	}
}

static uint32_t words(const char *text)
{
	uint32_t n = 0;

	for (; *text != '\0' && *text != '\n'; text++)
		n += *text != ' ' && (text[1] == ' ' || text[1] == '\n' || text[1] == '\0');
	return n;
}

static void from_status(struct probe_task *t)
{
	static const char *const caps[PROBE_CAPS] = {"CapInh", "CapPrm", "CapEff", "CapBnd",
						     "CapAmb"};
	const char *s = probe_text;

	(void)probe_read("/proc/self/status");
	for (int i = 0; i < PROBE_CAPS; i++)
		t->caps[i] = strtoull(line_of(s, caps[i]), NULL, 16);
	ids(line_of(s, "Uid"), t->uid);
	ids(line_of(s, "Gid"), t->gid);
	t->groups = words(line_of(s, "Groups"));
	t->no_new_privs = (uint32_t)strtoul(line_of(s, "NoNewPrivs"), NULL, 10);
	t->seccomp_mode = (uint32_t)strtoul(line_of(s, "Seccomp"), NULL, 10);
	t->seccomp_filters = (uint32_t)strtoul(line_of(s, "Seccomp_filters"), NULL, 10);
}

static void try_calls(struct probe_task *t)
{
	static const struct {
		bool makes_fd;
		long nr, arg[5];
	} calls[PROBE_CALLS] = {
#define CALL(id, name, want, fd, nr, ...) {(fd) != 0, nr, {__VA_ARGS__}},
#include "wire/probe_calls.def"
#undef CALL
	};

	for (int i = 0; i < PROBE_CALLS; i++) {
		const long *a = calls[i].arg;
		long r = syscall(calls[i].nr, a[0], a[1], a[2], a[3], a[4]);

		t->call[i] = r < 0 ? (uint16_t)errno : 0;
		if (r > 2 && calls[i].makes_fd)
			(void)close((int)r);
	}
}

/* Inode numbers, from links of the form "net:[4026531840]". */
static void namespaces(struct probe_task *t)
{
	static const char *const names[PROBE_NSS] = {
#define NS(name) #name,
#include "wire/probe_facts.def"
#undef NS
	};
	_cleanup_close_ int fd = open("/proc/self/ns", O_PATH | O_DIRECTORY | O_CLOEXEC);

	for (int i = 0; i < PROBE_NSS; i++) {
		char link[64];
		ssize_t n = readlinkat(fd, names[i], link, sizeof(link) - 1);
		const char *at;

		link[MAX(n, 0)] = '\0';
		at = strchr(link, '[');
		t->ns[i] = at != NULL ? strtoull(at + 1, NULL, 10) : 0;
	}
}

static uint32_t try_outside(int fd)
{
	char path[32];
	int got;

	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	got = fd < 0 ? -1 : open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	if (got < 0)
		return fd < 0 ? EBADF : (uint32_t)errno;
	(void)close(got);
	return 0;
}

void probe_task(struct probe_task *t, int outside_fd)
{
	t->pid = (uint32_t)getpid();
	from_status(t);
	t->securebits = (uint32_t)prctl(PR_GET_SECUREBITS, 0, 0, 0, 0);
	namespaces(t);
	t->outside = try_outside(outside_fd);
	try_calls(t);
}
