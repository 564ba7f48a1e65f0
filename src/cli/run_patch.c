#include "cli/run_patch.h"
/*
 * The pack streams of before and after the command are unpacked side by side in a second sandbox
 * (image host, no network, nothing else), where git compares them; its output is the patch. Neither
 * the files, which the command made, nor git reading them touches the host.
 *
 * The trees are named a and b, so that without a prefix git writes exactly the a/... and b/... paths
 * that `git apply` strips. Renames are off: their lines would carry the tree's name.
 */
#include "base/cleanup.h"
#include "base/quote.h"
#include "cmd/command.h"
#include "cli/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MIB (1024ULL * 1024)
enum { TIMEOUT_MS = 10 * 60 * 1000, MESSAGE_MAX = 4096 };

static const char compare[] =
    "mkdir -p a b || exit 125; "
    "for p in .git \"$@\"; do t=; case $p in */) t='-type d'; p=${p%/};; esac; "
    "find a b $t \\( -name \"$p\" -o -path \"*/$p\" \\) -prune -exec rm -rf {} + || exit 125; done; "
    "git -c core.quotePath=true diff --no-index --binary --no-prefix --no-renames --no-color "
    "--no-ext-diff --no-textconv a b; r=$?; [ $r -le 1 ] && exit 0; exit $r";

static int open_target(const char *path, struct err *e)
{
	char q[QUOTE_MAX];
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOCTTY, 0644);

	if (fd < 0)
		return err_set(e, ERR_INVALID, errno, "%s: %s", quote(path, q), strerror(errno));
	return fd;
}

static int add_feeds(struct launch_files *list, const struct run_files *f, struct err *e)
{
	for (uint32_t i = 0; i < f->patch_n; i++) {
		const struct patch_item *p = &f->patch[i];
		char inside[PACK_PATH_MAX + 1];
		int r;

		(void)snprintf(inside, sizeof(inside), "/workspace/a/%s", p->name);
		r = launch_files_feed(list, &p->before, inside, e);
		(void)snprintf(inside, sizeof(inside), "/workspace/b/%s", p->name);
		if (r == 0 && p->after.len > 0)
			r = launch_files_feed(list, &p->after, inside, e);
		if (r < 0)
			return r;
	}
	return 0;
}

static int make_spec(const struct run_args *a, struct spec *s, struct err *e)
{
	spec_init(s);
	spec_new_id(s);
	s->tier = strdup(a->spec.tier);
	s->image = strdup("host");
	s->disk = a->spec.disk * 2 + 64 * MIB;
	s->memory = s->disk + 1024 * MIB;
	s->inodes = a->spec.inodes * 2;
	s->timeout_ms = TIMEOUT_MS;
	if (s->tier == NULL || s->image == NULL ||
	    strv_add(&s->env, "GIT_CONFIG_NOSYSTEM=1") < 0 || strv_add(&s->env, "LC_ALL=C") < 0)
		return err_no_memory(e);
	return spec_check(s, e);
}

static int judge(const struct launch *l, struct err *e)
{
	const struct outlet *o = &l->out[1];
	char q[QUOTE_MAX];

	if (l->have_result && l->result.how == HOW_EXIT && l->result.code == 0) {
		if (l->out[0].error != 0)
			return err_set(e, ERR_INTERNAL, l->out[0].error, "writing it: %s",
				       strerror(l->out[0].error));
		return 0;
	}
	if (l->have_result && l->result.how == HOW_EXIT && l->result.code == EXIT_NOTFOUND)
		return err_set(e, ERR_UNSUPPORTED, ENOENT,
			       "git is needed on this host (Debian: apt-get install git)");
	if (l->end.timed_out)
		return err_set(e, ERR_LIMITED, ETIMEDOUT, "comparing took longer than 10 minutes");
	return err_set(e, ERR_INTERNAL, EIO, "git failed: %s",
		       quote_n(o->kept.len > 0 ? (const char *)buf_head(&o->kept) : "",
			       o->kept.len, q));
}

static int compare_in(const struct spec *s, const struct strv *excludes, struct launch_files *list,
		      int fd, struct err *e)
{
	char sh[] = "sh", c[] = "-c", script[sizeof(compare)];
	_cleanup_free_ char **argv = calloc((size_t)excludes->n + 5, sizeof(*argv));
	struct launch l = {.spec = s, .argv = argv, .files = list};
	int r;

	if (argv == NULL)
		return err_no_memory(e);
	memcpy(script, compare, sizeof(compare));
	argv[0] = argv[3] = sh;
	argv[1] = c;
	argv[2] = script;
	for (uint32_t i = 0; i < excludes->n; i++)
		argv[4 + i] = excludes->v[i];
	outlet_init(&l.out[0], fd, 0);
	outlet_init(&l.out[1], -1, MESSAGE_MAX);
	r = launch_run(&l, e);
	if (r == 0)
		r = judge(&l, e);
	outlet_done(&l.out[0]);
	outlet_done(&l.out[1]);
	return r;
}

int run_patch(const struct run_args *a, const struct run_files *f, struct err *e)
{
	_cleanup_close_ int fd = -1;
	struct launch_files *list = NULL;
	struct spec s = {.memory = 0};
	int r = make_spec(a, &s, e);

	if (r == 0)
		r = launch_files_new(&list, e);
	if (r == 0)
		r = add_feeds(list, f, e);
	if (r == 0)
		r = fd = open_target(a->one[RUN_OUT_PATCH], e);
	if (r >= 0)
		r = compare_in(&s, &a->excludes, list, fd, e);
	launch_files_free(list);
	spec_done(&s);
	return r < 0 ? err_wrap(e, r, "--out-patch") : 0;
}
