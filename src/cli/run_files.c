#include "cli/run_files.h"
/*
 * Sources are measured here, before anything starts: what does not fit into the disk limit is refused
 * with the numbers. Two things of one name are merged in the order given.
 */
#include "base/num.h"
#include "base/quote.h"
#include "base/units.h"
#include "cmd/say.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { BLOCK = 4096 }; /* what a folder takes of most file systems */
#define APPARENT_MAX (1ULL << 40) /* with holes: 1 TiB */

static void on_warn(void *arg, const char *text)
{
	const bool *quiet = (const bool *)arg;

	if (!*quiet)
		say("%s", text);
}

static struct copy_warn warn_for(const struct run_args *a)
{
	static const bool yes = true, no = false;
	union {
		const bool *c;
		void *v;
	} quiet = {.c = a->on[RUN_QUIET] ? &yes : &no};

	return (struct copy_warn){.fn = on_warn, .arg = quiet.v};
}

/* Where a source's changes go in the patch: its own relative path, or the top for one outside. */
static char *patch_name(const char *src)
{
	char *name = strdup(src), *out = name, *c = name;

	if (name == NULL || *name == '/') {
		if (name != NULL)
			*name = '\0';
		return name;
	}
	while (*c != '\0') { /* drop "." parts and doubled slashes, in place */
		size_t n = strcspn(c, "/");
		char *next = c + n + strspn(c + n, "/");

		if (n == 2 && memcmp(c, "..", 2) == 0) {
			*name = '\0';
			return name;
		}
		if (n > 0 && !(n == 1 && *c == '.')) {
			if (out != name)
				*out++ = '/';
			memmove(out, c, n);
			out += n;
		}
		c = next;
	}
	*out = '\0';
	return name;
}

/* The array was made for every item at once: copies refer to the tees in it. */
static int add_patch(struct run_files *f, const struct run_args *a, const char *src,
		     const char *inside, struct copy_tee **ret_tee, struct err *e)
{
	struct patch_item *p = &f->patch[f->patch_n++];
	uint64_t max = a->spec.disk * 2; /* the bytes and what frames them */
	int r;

	*p = (struct patch_item){
	    patch_name(src), strdup(inside), COPY_TEE_INIT, COPY_TEE_INIT};
	if (p->name == NULL || p->inside == NULL)
		return err_no_memory(e);
	r = copy_tee_open(&p->before, max, e);
	if (r == 0)
		r = copy_tee_open(&p->after, max, e);
	*ret_tee = &p->before;
	return r;
}

static struct walk_rules rules_for(const struct run_args *a)
{
	return (struct walk_rules){
	    .exclude = (const char *const *)a->excludes.v,
	    .exclude_n = a->excludes.n,
	    .gitignore = a->on[RUN_GITIGNORE],
	};
}

static int add_in(struct run_files *f, const struct run_args *a, const char *src,
		  const char *inside, uint64_t *sum, struct err *e)
{
	struct copy_in_opts o = {
	    .rules = rules_for(a),
	    .max_bytes = a->spec.disk - *sum,
	    .max_entries = a->spec.inodes,
	    .warn = warn_for(a),
	};
	struct copy_in *c = NULL;
	char t[UNITS_TEXT];
	int r = 0;

	if (f->patch != NULL)
		r = add_patch(f, a, src, inside, &o.tee, e);
	if (r == 0)
		r = copy_in_new(src, &o, &c, e);
	if (r == -EFBIG)
		return err_wrap(e, r, "--file (disk limit: %s)", units_size_text(a->spec.disk, t));
	if (r < 0)
		return err_wrap(e, r, "--file");
	*sum += copy_in_bytes(c);
	return launch_files_in_take(f->list, c, inside, e);
}

static int add_ins(struct run_files *f, const struct run_args *a, const struct script *script,
		   struct err *e)
{
	uint64_t sum = 0;
	int r = 0;

	for (uint32_t i = 0; i < a->files.n && r == 0; i++) {
		struct path_pair p = {NULL, NULL};

		r = parse_file_in(a->files.v[i], &p, e);
		if (r == 0)
			r = add_in(f, a, p.left, p.right, &sum, e);
		path_pair_done(&p);
	}
	if (r == 0 && script != NULL)
		r = add_in(f, a, script->path, script->inside, &sum, e);
	return r;
}

int run_files_check_target(const char *path, struct err *e)
{
	const char *slash = strrchr(path, '/');
	char folder[PATH_MAX] = ".", q[QUOTE_MAX];
	struct stat st;

	if (slash != NULL && (size_t)(slash - path) >= sizeof(folder))
		return err_set(e, ERR_INVALID, ENAMETOOLONG, "%s: too long", quote(path, q));
	if (slash != NULL)
		(void)snprintf(folder, sizeof(folder), "%.*s", (int)(slash - path) + 1, path);
	if (stat(folder, &st) < 0)
		return err_set(e, ERR_NOT_FOUND, errno, "%s: the folder above it: %s",
			       quote(path, q), strerror(errno));
	if (!S_ISDIR(st.st_mode))
		return err_set(e, ERR_INVALID, ENOTDIR, "%s: what is above it is no folder",
			       quote(path, q));
	return 0;
}

/* What may come out: no more than fits in, whatever the sandbox claims to have. */
static struct copy_room room_for(const struct run_args *a)
{
	return (struct copy_room){a->spec.disk, APPARENT_MAX, a->spec.inodes, a->spec.disk / BLOCK};
}

static int add_out(struct run_files *f, const struct run_args *a, const struct path_pair *p,
		   struct err *e)
{
	const char *name = strrchr(p->left, '/') + 1; /* make_inside: there is one */
	const struct copy_room max = room_for(a);
	const struct copy_out_opts o = {
	    .dst = p->right,
	    .name = name[0] != '\0' ? name : "root",
	    .rules = rules_for(a),
	    .max_bytes = max.bytes,
	    .max_apparent = max.apparent,
	    .max_entries = max.entries,
	    .max_folders = max.folders,
	    .room = &f->out_room,
	    .warn = warn_for(a),
	};
	struct copy_out *c = NULL;
	int r = run_files_check_target(p->right, e);

	if (r == 0)
		r = copy_out_new(&o, &c, e);
	if (r < 0)
		return err_wrap(e, r, "--out");
	return launch_files_out_take(f->list, c, p->left, false, e);
}

static int add_outs(struct run_files *f, const struct run_args *a, struct err *e)
{
	int r = 0;

	for (uint32_t i = 0; i < a->outs.n && r == 0; i++) {
		struct path_pair *p = &f->outs[f->outs_n];

		r = parse_file_out(a->outs.v[i], p, e);
		if (r < 0)
			break;
		f->outs_n++;
		r = add_out(f, a, p, e);
	}
	return r;
}

/* After the command: the same places again, into memory. */
static int add_grabs(struct run_files *f, const struct run_args *a, struct err *e)
{
	const struct copy_room max = room_for(a);

	for (uint32_t i = 0; i < f->patch_n; i++) {
		const struct copy_out_opts o = {
		    .max_bytes = max.bytes,
		    .max_apparent = max.apparent,
		    .max_entries = max.entries,
		    .max_folders = max.folders,
		    .room = &f->patch_room,
		    .warn = warn_for(a),
		    .tee = &f->patch[i].after,
		};
		struct copy_out *c = NULL;
		int r = copy_out_new(&o, &c, e);

		if (r == 0)
			r = launch_files_out_take(f->list, c, f->patch[i].inside, true, e);
		if (r < 0)
			return r;
	}
	return 0;
}

int run_files_plan(const struct run_args *a, const struct script *script, struct run_files *ret,
		   struct err *e)
{
	size_t ins = (size_t)a->files.n + (script != NULL);
	bool patch = a->one[RUN_OUT_PATCH] != NULL;
	int r;

	if (patch && (r = run_files_check_target(a->one[RUN_OUT_PATCH], e)) < 0)
		return err_wrap(e, r, "--out-patch");
	if (patch && ins == 0)
		return err_set(e, ERR_INVALID, EINVAL,
			       "--out-patch: nothing is copied in, so nothing can be compared");
	if (ins == 0 && a->outs.n == 0)
		return 0;
	r = launch_files_new(&ret->list, e);
	if (r < 0)
		return r;
	if (a->on[RUN_GITIGNORE])
		launch_files_gitignore(ret->list);
	ret->out_room = ret->patch_room = room_for(a);
	if (patch)
		ret->patch = calloc(ins, sizeof(*ret->patch));
	if (a->outs.n > 0)
		ret->outs = calloc(a->outs.n, sizeof(*ret->outs));
	if ((patch && ret->patch == NULL) || (a->outs.n > 0 && ret->outs == NULL))
		return err_no_memory(e);
	r = add_ins(ret, a, script, e);
	if (r == 0)
		r = add_outs(ret, a, e);
	if (r == 0)
		r = add_grabs(ret, a, e);
	return r;
}

void run_files_done(struct run_files *f)
{
	launch_files_free(f->list);
	for (uint32_t i = 0; i < f->patch_n; i++) {
		free(f->patch[i].name);
		free(f->patch[i].inside);
		copy_tee_close(&f->patch[i].before);
		copy_tee_close(&f->patch[i].after);
	}
	for (uint32_t i = 0; i < f->outs_n; i++)
		path_pair_done(&f->outs[i]);
	free(f->patch);
	free(f->outs);
	memset(f, 0, sizeof(*f));
}
