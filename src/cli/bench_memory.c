/*
 * Memory of an idle sandbox for `brig bench`: proportional set size, which counts a shared page by
 * the share of each process that maps it, so that the parts can be added up.
 *
 * The tree below the started command is found by parent ids in /proc. The workload's own process,
 * `sleep`, is left out; what remains is what the sandbox itself costs. The names in /proc come from
 * processes we started ourselves; they are still only compared, never used.
 */
#include "cli/bench_priv.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { TREE_MAX = 64, WAIT_ROUNDS = 200, WAIT_MS = 10, IDLE_MS = 300 };

struct proc {
	pid_t pid, ppid;
	char comm[32];
};

static void rest_ms(long ms)
{
	struct timespec t = {ms / 1000, ms % 1000 * 1000000};

	(void)nanosleep(&t, NULL);
}

static int read_proc(const char *name, struct proc *ret)
{
	char path[64], line[512], *open_p, *close_p;
	FILE *f;
	size_t n;

	(void)snprintf(path, sizeof(path), "/proc/%.20s/stat", name);
	f = fopen(path, "re");
	if (!f)
		return -errno;
	n = fread(line, 1, sizeof(line) - 1, f);
	(void)fclose(f);
	line[n] = 0;
	open_p = strchr(line, '(');
	close_p = strrchr(line, ')');
	if (!open_p || !close_p || close_p < open_p || strlen(close_p) < 4)
		return -EINVAL;
	*close_p = 0;
	(void)snprintf(ret->comm, sizeof(ret->comm), "%s", open_p + 1);
	ret->pid = (pid_t)strtol(name, NULL, 10);
	ret->ppid = (pid_t)strtol(close_p + 4, NULL, 10);
	return 0;
}

/* Every process whose parent is already in the tree; repeated until nothing is new. */
static size_t tree(pid_t root, struct proc t[TREE_MAX])
{
	size_t n = 1, before = 0;

	t[0] = (struct proc){.pid = root};
	while (n != before) {
		DIR *d = opendir("/proc");
		struct dirent *de;

		before = n;
		while (d && (de = readdir(d)) && n < TREE_MAX) {
			struct proc p = {0};
			bool child = false, known = false;

			if (de->d_name[0] < '1' || de->d_name[0] > '9' || read_proc(de->d_name, &p))
				continue;
			for (size_t i = 0; i < n; i++) {
				child |= t[i].pid == p.ppid;
				known |= t[i].pid == p.pid;
			}
			if (child && !known)
				t[n++] = p;
		}
		if (d)
			(void)closedir(d);
	}
	return n;
}

static int pss_of(pid_t pid, uint64_t *ret)
{
	char path[64], line[256];
	unsigned long long kib;
	int r = -EINVAL;
	FILE *f;

	(void)snprintf(path, sizeof(path), "/proc/%d/smaps_rollup", (int)pid);
	f = fopen(path, "re");
	if (!f)
		return -errno;
	while (fgets(line, sizeof(line), f)) {
		if (strncmp(line, "Pss:", 4) == 0) {
			kib = strtoull(line + 4, NULL, 10);
			*ret = (uint64_t)kib * 1024;
			r = 0;
			break;
		}
	}
	(void)fclose(f);
	return r;
}

int bench_pss_read(pid_t root, struct bench_pss *ret)
{
	struct proc t[TREE_MAX];
	size_t n = 0;

	memset(ret, 0, sizeof(*ret));
	for (int i = 0; i < WAIT_ROUNDS && !ret->sleeper; i++) {
		n = tree(root, t);
		for (size_t k = 1; k < n; k++) {
			if (strcmp(t[k].comm, "sleep") == 0)
				ret->sleeper = t[k].pid;
		}
		if (!ret->sleeper)
			rest_ms(WAIT_MS);
	}
	if (!ret->sleeper)
		return -ESRCH;
	rest_ms(IDLE_MS);
	n = tree(root, t);
	for (size_t k = 0; k < n; k++) {
		uint64_t v = 0;
		int r = t[k].pid == ret->sleeper ? 0 : pss_of(t[k].pid, &v);

		if (r)
			return r;
		if (k == 0)
			ret->command = v;
		else if (t[k].pid != ret->sleeper) {
			ret->others += v;
			ret->others_n++;
		}
	}
	return 0;
}
