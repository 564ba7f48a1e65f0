/*
 * The tables of `brig bench`, the folder it works in, and the command lines.
 *
 * crun and runc start from a bundle, a folder with config.json and a root: one is written for each
 * workload, as root and as user, with the namespaces and mounts the other contenders have. The
 * folder is fresh (mkdtemp) and only searchable by others, but for the two folders in which the
 * ordinary user's spawner and runtime write. It is removed at the end, links never followed.
 */
#include "cli/bench_priv.h"

#include "base/cleanup.h"
#include "sys/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define WORKLOAD(id, name, sink, bytes, what, ...)                                                 \
	static const char *const work_argv_##id[] = {__VA_ARGS__, NULL};
#include "cli/bench_workloads.def"
#undef WORKLOAD
const struct work_desc bench_works[WORK_COUNT] = {
#define WORKLOAD(id, name, sink, bytes, what, ...) {name, what, sink, bytes, work_argv_##id},
#include "cli/bench_workloads.def"
#undef WORKLOAD
};

#define CONTENDER(id, place, flags, label, ...)                                                    \
	static const char *const row_argv_##id[] = {__VA_ARGS__, NULL};
#include "cli/bench_contenders.def"
#undef CONTENDER
const struct row_desc bench_rows[ROW_COUNT] = {
#define CONTENDER(id, place, flags, label, ...) {#id, label, PLACE_##place, flags, row_argv_##id},
#include "cli/bench_contenders.def"
#undef CONTENDER
};

/* The host's id that is 0 inside, and how many follow, in the bundles made for root. */
enum { BUNDLE_ID_BASE = 200000, BUNDLE_ID_COUNT = 65536 };

static const char *user_word(enum bench_place p) { return place_is_user(p) ? "user" : "root"; }

static int write_config(const struct bench_site *s, const char *path, bool user,
			enum bench_workload w)
{
	unsigned base = user ? (unsigned)s->uid : BUNDLE_ID_BASE;
	unsigned count = user ? 1 : BUNDLE_ID_COUNT;
	FILE *f = fopen(path, "wxe");

	if (!f)
		return -errno;
	fputs("{\"ociVersion\":\"1.0.2\",\"process\":{\"terminal\":false,"
	      "\"user\":{\"uid\":0,\"gid\":0},\"env\":[\"PATH=/usr/bin:/bin\"],"
	      "\"cwd\":\"/workspace\",\"noNewPrivileges\":true,\"capabilities\":{\"bounding\":[],"
	      "\"effective\":[],\"inheritable\":[],\"permitted\":[],\"ambient\":[]},\"args\":[",
	      f);
	for (const char *const *a = bench_works[w].argv; *a; a++)
		fprintf(f, "%s\"%s\"", a == bench_works[w].argv ? "" : ",", *a);
	fprintf(f, "]},\"root\":{\"path\":\"%s/rootfs\",\"readonly\":true},\"hostname\":\"bench\",",
		s->dir);
	fputs("\"mounts\":["
	      "{\"destination\":\"/usr\",\"type\":\"none\",\"source\":\"/usr\","
	      "\"options\":[\"rbind\",\"ro\",\"nosuid\",\"nodev\"]},"
	      "{\"destination\":\"/proc\",\"type\":\"proc\",\"source\":\"proc\","
	      "\"options\":[\"nosuid\",\"noexec\",\"nodev\"]},"
	      "{\"destination\":\"/dev\",\"type\":\"tmpfs\",\"source\":\"tmpfs\","
	      "\"options\":[\"nosuid\",\"mode=755\"]},"
	      "{\"destination\":\"/tmp\",\"type\":\"tmpfs\",\"source\":\"tmpfs\","
	      "\"options\":[\"nosuid\",\"nodev\"]},"
	      "{\"destination\":\"/workspace\",\"type\":\"tmpfs\",\"source\":\"tmpfs\","
	      "\"options\":[\"nosuid\",\"nodev\"]}],\"linux\":{\"namespaces\":["
	      "{\"type\":\"user\"},{\"type\":\"mount\"},{\"type\":\"pid\"},{\"type\":\"network\"},"
	      "{\"type\":\"ipc\"},{\"type\":\"uts\"},{\"type\":\"cgroup\"}],",
	      f);
	fprintf(f,
		"\"uidMappings\":[{\"containerID\":0,\"hostID\":%u,\"size\":%u}],"
		"\"gidMappings\":[{\"containerID\":0,\"hostID\":%u,\"size\":%u}]}}\n",
		base, count, base, count);
	return fclose(f) ? -errno : 0;
}

/* A folder below the site. mode is set whatever the umask is. */
static int make_dir(const struct bench_site *s, const char *name, mode_t mode)
{
	char p[256];

	if (snprintf(p, sizeof(p), "%s/%s", s->dir, name) >= (int)sizeof(p))
		return -ENAMETOOLONG;
	return mkdir(p, 0700) || chmod(p, mode) ? -errno : 0;
}

static int make_rootfs(const struct bench_site *s)
{
	static const char *const dirs[] = {"rootfs",	   "rootfs/usr", "rootfs/proc",
					   "rootfs/dev",   "rootfs/tmp", "rootfs/workspace"};
	static const char *const links[] = {"bin", "sbin", "lib", "lib64"};
	int r = 0;

	for (size_t i = 0; i < sizeof(dirs) / sizeof(*dirs) && !r; i++)
		r = make_dir(s, dirs[i], 0755);
	for (size_t i = 0; i < sizeof(links) / sizeof(*links) && !r; i++) {
		char to[32], p[256];

		(void)snprintf(to, sizeof(to), "usr/%s", links[i]);
		(void)snprintf(p, sizeof(p), "%s/rootfs/%s", s->dir, links[i]);
		r = symlink(to, p) ? -errno : 0;
	}
	return r;
}

static int make_bundles(const struct bench_site *s)
{
	int r = 0;

	for (int user = 0; user < 2; user++) {
		for (int w = 0; w < WORK_COUNT && !r; w++) {
			char name[64], p[256];

			(void)snprintf(name, sizeof(name), "%s-%s", user ? "user" : "root",
				       bench_works[w].name);
			r = make_dir(s, name, 0755);
			(void)snprintf(p, sizeof(p), "%s/%s/config.json", s->dir, name);
			if (!r)
				r = write_config(s, p, user, (enum bench_workload)w);
		}
	}
	return r;
}

/* The executable a row starts: its first word, searched where programs usually are. */
static void find_program(struct bench_site *s, enum bench_row r)
{
	static const char *const where[] = {"/usr/local/sbin", "/usr/local/bin", "/usr/sbin",
					    "/usr/bin",        "/sbin",		 "/bin"};
	char *out = s->program[r];
	const char *name = bench_rows[r].argv[0];

	if (name[0] == '@') {
		(void)snprintf(out, sizeof(s->program[r]), "%s", name);
		return;
	}
	for (size_t i = 0; i < sizeof(where) / sizeof(*where); i++) {
		(void)snprintf(out, sizeof(s->program[r]), "%s/%s", where[i], name);
		if (!access(out, X_OK))
			return;
	}
	out[0] = 0;
}

int bench_site_make(struct bench_site *s, struct err *e)
{
	const char *tmp = getenv("TMPDIR");
	ssize_t n = readlink("/proc/self/exe", s->brig, sizeof(s->brig) - 1);
	int r;

	if (n <= 0)
		return err_set(e, ERR_INTERNAL, errno, "reading /proc/self/exe");
	s->brig[n] = 0;
	s->uid = geteuid() ? geteuid() : BENCH_USER_ID;
	if (snprintf(s->dir, sizeof(s->dir), "%s/brig-bench.XXXXXX", tmp && *tmp ? tmp : "/tmp") >=
	    (int)sizeof(s->dir))
		return err_set(e, ERR_INVALID, ENAMETOOLONG, "TMPDIR is too long");
	if (!mkdtemp(s->dir))
		return err_set(e, ERR_INTERNAL, errno, "making %s", s->dir);
	r = chmod(s->dir, 0711) ? -errno : 0;
	if (!r)
		r = make_rootfs(s);
	if (!r)
		r = make_bundles(s);
	if (!r)
		r = make_dir(s, "state-root", 0700);
	if (!r)
		r = make_dir(s, "state-user", 01777);
	if (!r)
		r = make_dir(s, "home-root", 0700);
	if (!r)
		r = make_dir(s, "home-user", 01777);
	if (!r)
		r = make_dir(s, "out", 01777);
	if (r) {
		bench_site_remove(s);
		return err_set(e, ERR_INTERNAL, -r, "filling %s", s->dir);
	}
	for (int i = 0; i < ROW_COUNT; i++)
		find_program(s, (enum bench_row)i);
	return 0;
}

void bench_site_remove(const struct bench_site *s)
{
	(void)!tree_remove(AT_FDCWD, s->dir);
}

/* One word of a row's table entry, @cmd excepted. */
static const char *replace(const struct bench_site *s, enum bench_row r, enum bench_workload w,
			   uint32_t n, bool show, struct bench_words *o, const char *word)
{
	const char *dir = show ? "DIR" : s->dir, *u = user_word(bench_rows[r].place);

	if (strcmp(word, "@brig") == 0)
		return show ? "brig" : s->brig;
	if (strcmp(word, "@bundle") == 0) {
		(void)snprintf(o->scratch[0], sizeof(o->scratch[0]), "%s/%s-%s", dir, u,
			       bench_works[w].name);
		return o->scratch[0];
	}
	if (strcmp(word, "@state") == 0) {
		(void)snprintf(o->scratch[1], sizeof(o->scratch[1]), "%s/state-%s", dir, u);
		return o->scratch[1];
	}
	if (strcmp(word, "@receipt") == 0) {
		(void)snprintf(o->scratch[1], sizeof(o->scratch[1]), "%s/state-%s/receipt", dir, u);
		return o->scratch[1];
	}
	if (strcmp(word, "@n") == 0) {
		(void)snprintf(o->scratch[2], sizeof(o->scratch[2]), "bench-%d-%u", (int)r, n);
		return show ? "ID" : o->scratch[2];
	}
	return word;
}

int bench_words(const struct bench_site *s, enum bench_row r, enum bench_workload w, uint32_t n,
		bool show, struct bench_words *o)
{
	size_t k = 0;

	for (const char *const *a = bench_rows[r].argv; *a; a++) {
		const char *const *cmd = strcmp(*a, "@cmd") == 0 ? bench_works[w].argv : NULL;

		do {
			if (k == BENCH_ARGV_MAX)
				return -E2BIG;
			o->v[k++] = cmd ? *cmd++ : replace(s, r, w, n, show, o, *a);
		} while (cmd && *cmd);
	}
	if (!show && s->program[r][0] == '/')
		o->v[0] = s->program[r];
	o->v[k] = NULL;
	return 0;
}
