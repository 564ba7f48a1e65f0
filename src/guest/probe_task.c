#include "guest/probe.h"

#include "base/num.h"
#include "sys/raw.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/prctl.h>

/*
 * One process as the kernel sees it. Identity, capabilities and filter are what /proc/self/status
 * says; the system calls of probe_calls.def are really made, with arguments that do nothing should
 * they be let through. Fed by the kernel only. By plain system calls, which cost least.
 */

static int open_at(int dir_fd, const char *name, int flags)
{
	return (int)raw_call(SYS_openat, dir_fd, (long)name, flags | O_CLOEXEC, 0, 0);
}

size_t probe_read(const struct probe_view *v, const char *name)
{
	int fd = open_at(v->self_fd, name, O_RDONLY);
	size_t n = 0;
	long got = 1;

	while (fd >= 0 && got > 0 && n < v->room - 1) {
		got = raw_read(fd, v->text + n, v->room - 1 - n);
		if (got > 0)
			n += (size_t)got;
	}
	if (fd >= 0)
		raw_close(fd);
	v->text[n] = '\0';
	return n;
}

static unsigned digit(char c)
{
	if (c >= '0' && c <= '9')
		return (unsigned)(c - '0');
	return c >= 'a' && c <= 'f' ? (unsigned)(c - 'a') + 10 : UINT8_MAX;
}

uint64_t probe_number(const char **at, unsigned base)
{
	uint64_t n = 0;

	while (**at == ' ' || **at == '\t')
		(*at)++;
	for (; digit(**at) < base; (*at)++)
		n = n * base + digit(**at);
	return n;
}

static void ids(const char *text, uint32_t dst[3])
{
	for (int i = 0; i < 3; i++)
		dst[i] = (uint32_t)probe_number(&text, 10);
}

static uint32_t words(const char *text)
{
	uint32_t n = 0;

	for (; *text != '\0' && *text != '\n'; text++)
		n += *text != ' ' && (text[1] == ' ' || text[1] == '\n' || text[1] == '\0');
	return n;
}

/* The line "NAME:\tTEXT" at `line`: its text, NULL when it is another one's. */
static const char *text_of(const char *line, const char *name)
{
	size_t n = strlen(name);

	return strncmp(line, name, n) == 0 && line[n] == ':' && line[n + 1] == '\t' ? line + n + 2
										    : NULL;
}

static void take_line(struct probe_task *t, struct probe_view *v, const char *line)
{
	static const char *const caps[PROBE_CAPS] = {"CapInh", "CapPrm", "CapEff", "CapBnd",
						     "CapAmb"};
	const struct {
		const char *name;
		uint32_t *to;
	} numbers[] = {{"NoNewPrivs", &t->no_new_privs},
		       {"Seccomp", &t->seccomp_mode},
		       {"Seccomp_filters", &t->seccomp_filters},
		       {"FDSize", &v->fd_slots}};
	const char *at;

	for (int i = 0; i < PROBE_CAPS; i++)
		if ((at = text_of(line, caps[i])) != NULL)
			t->caps[i] = probe_number(&at, 16);
	for (size_t i = 0; i < ARRAY_LEN(numbers); i++)
		if ((at = text_of(line, numbers[i].name)) != NULL)
			*numbers[i].to = (uint32_t)probe_number(&at, 10);
	if ((at = text_of(line, "Uid")) != NULL)
		ids(at, t->uid);
	if ((at = text_of(line, "Gid")) != NULL)
		ids(at, t->gid);
	if ((at = text_of(line, "Groups")) != NULL)
		t->groups = words(at);
}

static void from_status(struct probe_task *t, struct probe_view *v)
{
	(void)probe_read(v, "status");
	for (const char *line = v->text; line != NULL && *line != '\0';) {
		if (strchr("CFGNSU", *line) != NULL)
			take_line(t, v, line);
		line = strchr(line, '\n');
		line += line != NULL;
	}
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
		long r = raw_call(calls[i].nr, a[0], a[1], a[2], a[3], a[4]);

		t->call[i] = r < 0 ? (uint16_t)-r : 0;
		if (r > 2 && calls[i].makes_fd)
			raw_close((int)r);
	}
}

/* Inode numbers, from links of the form "net:[4026531840]". */
static void namespaces(struct probe_task *t, const struct probe_view *v)
{
	static const char *const names[PROBE_NSS] = {
#define NS(name) "ns/" #name,
#include "wire/probe_facts.def"
#undef NS
	};

	for (int i = 0; i < PROBE_NSS; i++) {
		char link[64];
		long n = raw_call(SYS_readlinkat, v->self_fd, (long)names[i], (long)link,
				  sizeof(link) - 1, 0);
		const char *at;

		link[MAX(n, 0)] = '\0';
		at = strchr(link, '[');
		if (at != NULL) {
			at++;
			t->ns[i] = probe_number(&at, 10);
		}
	}
}

uint32_t probe_outside(int fd)
{
	char name[32] = "/proc/self/fd/", *at = name + strlen(name);
	int got, unit = 1;

	if (fd < 0)
		return EBADF;
	while (fd / unit >= 10)
		unit *= 10;
	for (; unit > 0; unit /= 10)
		*at++ = (char)('0' + fd / unit % 10);
	got = open_at(AT_FDCWD, name, O_RDONLY | O_NOCTTY | O_NONBLOCK);
	if (got < 0)
		return (uint32_t)-got;
	raw_close(got);
	return 0;
}

void probe_task(struct probe_task *t, struct probe_view *v)
{
	t->pid = (uint32_t)raw_call(SYS_getpid, 0, 0, 0, 0, 0);
	from_status(t, v);
	t->securebits = (uint32_t)raw_call(SYS_prctl, PR_GET_SECUREBITS, 0, 0, 0, 0);
	namespaces(t, v);
	try_calls(t);
}
