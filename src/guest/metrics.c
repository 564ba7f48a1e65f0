#include "guest/worker.h"

#include "base/cleanup.h"
#include "base/num.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>
#include <time.h>

/*
 * METRICS as seen from inside: one record with a VALUE for each row of enum metric. Where the host
 * has cgroups its own numbers are the exact ones; these need nothing but /proc. CPU time is that of living
 * processes and of the children they have waited for; memory is what processes do not share plus
 * what the workspace holds.
 */

static bool read_small(int at, const char *name, char *dst, size_t size)
{
	_cleanup_close_ int fd = openat(at, name, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, dst, size - 1);

	if (n <= 0)
		return false;
	dst[n] = '\0';
	return true;
}

/* The n-th (from 1) space-separated number of s, 0 when there is none. */
static uint64_t number_at(const char *s, int n)
{
	for (; n > 1 && s != NULL; n--) {
		s = strchr(s, ' ');
		s = s == NULL ? NULL : s + 1;
	}
	return s == NULL ? 0 : strtoull(s, NULL, 10);
}

static void add_process(int proc, const char *pid, uint64_t v[METRIC_COUNT], uint64_t *start)
{
	uint64_t hz = (uint64_t)sysconf(_SC_CLK_TCK), page = (uint64_t)sysconf(_SC_PAGESIZE);
	char path[64], text[1024], *after;

	v[METRIC_PROCS]++;
	(void)snprintf(path, sizeof(path), "%.16s/stat", pid);
	if (!read_small(proc, path, text, sizeof(text)) || (after = strrchr(text, ')')) == NULL)
		return;
	/* after the name: 1 "", 2 state, 3 ppid ... 13-16 utime stime cutime cstime, 21 start (proc(5)) */
	for (int i = 13; i <= 16; i++)
		v[METRIC_CPU_US] += number_at(after, i) * 1000000u / hz;
	if (strcmp(pid, "1") == 0)
		*start = number_at(after, 21) * 1000000u / hz;
	(void)snprintf(path, sizeof(path), "%.16s/statm", pid);
	if (read_small(proc, path, text, sizeof(text))) {
		uint64_t rss = number_at(text, 2), shared = number_at(text, 3);

		v[METRIC_MEM_USED] += (rss > shared ? rss - shared : 0) * page;
	}
}

int metrics_run(struct worker *w)
{
	uint64_t v[METRIC_COUNT] = {0}, start = 0, now;
	DIR *proc = opendir("/proc");
	struct statvfs fs;
	struct timespec ts;
	struct dirent *e;
	struct buf b;
	struct msg_writer rec = {.b = &b};
	int r;

	while (proc != NULL && (e = readdir(proc)) != NULL) {
		if (isdigit((unsigned char)e->d_name[0]))
			add_process(dirfd(proc), e->d_name, v, &start);
	}
	if (proc != NULL)
		(void)closedir(proc);
	if (statvfs("/workspace", &fs) == 0) {
		v[METRIC_DISK_TOTAL] = (uint64_t)fs.f_blocks * fs.f_frsize;
		v[METRIC_DISK_USED] = (uint64_t)(fs.f_blocks - fs.f_bfree) * fs.f_frsize;
		v[METRIC_MEM_USED] += v[METRIC_DISK_USED];
	}
	(void)clock_gettime(CLOCK_BOOTTIME, &ts);
	now = (uint64_t)ts.tv_sec * 1000000u + (uint64_t)ts.tv_nsec / 1000u;
	v[METRIC_UPTIME_US] = now > start ? now - start : 0;
	buf_init(&b, MSG_RECORD_MAX);
	for (int i = 0; i < METRIC_COUNT; i++)
		msg_u64(&rec, F_VALUE, MIN(v[i], (uint64_t)INT64_MAX));
	r = worker_record(w, &rec);
	buf_done(&b);
	return r;
}
