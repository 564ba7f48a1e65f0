/* What `brig bench` ran on: numbers without the machine are worth nothing. Reads /proc and /etc. */
#include "cli/bench_priv.h"

#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <sys/vfs.h>
#include <unistd.h>

enum { CGROUP2_MAGIC = 0x63677270 };

/* The value of the first line of `path` that starts with `key`, without quotes and blanks. */
static void find_line(const char *path, const char *key, char *out, size_t size)
{
	char line[512];
	FILE *f = fopen(path, "re");

	(void)snprintf(out, size, "unknown");
	while (f && fgets(line, sizeof(line), f)) {
		if (strncmp(line, key, strlen(key)) == 0) {
			char *v = line + strlen(key);

			v += strspn(v, " \t:=\"");
			v[strcspn(v, "\"\n")] = 0;
			(void)snprintf(out, size, "%s", v);
			break;
		}
	}
	if (f)
		(void)fclose(f);
}

static const char *cgroup_mode(void)
{
	struct statfs fs;

	if (statfs("/sys/fs/cgroup", &fs))
		return "none";
	if (fs.f_type == CGROUP2_MAGIC)
		return "v2";
	if (!statfs("/sys/fs/cgroup/unified", &fs) && fs.f_type == CGROUP2_MAGIC)
		return "hybrid: v1 controllers beside a v2 hierarchy";
	return "v1";
}

void bench_machine_read(struct bench_machine *m)
{
	struct utsname u;
	struct sysinfo s;

	memset(m, 0, sizeof(*m));
	find_line("/proc/cpuinfo", "model name", m->cpu, sizeof(m->cpu));
	find_line("/etc/os-release", "PRETTY_NAME", m->distro, sizeof(m->distro));
	if (!uname(&u))
		(void)snprintf(m->kernel, sizeof(m->kernel), "%s %s %s", u.sysname, u.release,
			       u.machine);
	if (!sysinfo(&s))
		m->memory = (uint64_t)s.totalram * s.mem_unit;
	m->cores = sysconf(_SC_NPROCESSORS_ONLN);
	m->cgroups = cgroup_mode();
}
