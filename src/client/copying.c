#include "client/copying.h"

#include "base/num.h"
#include "base/quote.h"
#include "cmd/progress.h"
#include "cmd/say.h"
#include "session/copy_in.h"
#include "session/copy_out.h"
#include "sys/loop.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* One call moves one tree. libcurl asks for the next part, or brings one, from within http_turn;
 * between the turns the line for people is drawn. Both ends of the pack stream check it: here what
 * a sandbox sends, in its agent what is sent there. */

enum { TURN_MS = 250, ENTRIES_MAX = 4000000 };
#define APPARENT_MAX (1ULL << 40) /* with holes: 1 TiB */

struct flow {
	struct http_call call;
	struct progress progress;
	struct copy_in *in;
	struct copy_out *out;
	struct buf part; /* of the pack stream, not sent yet */
	bool complete;
	bool raw; /* standard input or output, and bytes counts them, up to max */
	uint64_t bytes, max;
	bool waits; /* for standard input */
	int status; /* -errno of this side */
	struct err e;
};

/* ---- names ---- */

bool copying_split(const char *word, size_t *ret_id_n, const char **ret_path)
{
	size_t n = strspn(word, "abcdefghijklmnopqrstuvwxyz0123456789");

	if (n == 0 || n > BOX_ID_MAX || word[n] != ':')
		return false;
	*ret_id_n = n;
	*ret_path = word + n + 1;
	return true;
}

int copying_name(const char *path, char ret[256])
{
	size_t end = strlen(path), start;

	ret[0] = '\0';
	while (end > 0 && path[end - 1] == '/')
		end--;
	start = end;
	while (start > 0 && path[start - 1] != '/')
		start--;
	if (end - start > 255 || (end - start == 2 && memcmp(path + start, "..", 2) == 0))
		return -EINVAL;
	if (end == start || (end - start == 1 && (path[start] == '.' || path[start] == '~')))
		return 0;
	memcpy(ret, path + start, end - start);
	ret[end - start] = '\0';
	return 0;
}

int copying_is_folder(const struct copying *k, const char *path, struct err *e)
{
	json_t *got = NULL, *body;
	const char *type;
	int r;

	if (path[0] == '\0')
		return 1; /* home */
	body = json_pack("{s:s}", "path", path);
	if (body == NULL)
		return err_set(e, ERR_INVALID, EINVAL, "the path inside must be text in UTF-8");
	r = api_unary(k->c, k->box, k->user, "filesystem.Filesystem/Stat", body, &got, e);
	if (r == -ENOENT)
		return 0;
	type = api_text(json_object_get(got, "entry"), "type");
	r = r < 0 ? r : type != NULL && strcmp(type, "FILE_TYPE_DIRECTORY") == 0;
	json_decref(got);
	return r;
}

/* ---- a call ---- */

static int target(const char *route, const char *path, char **ret, struct err *e)
{
	struct buf b = {.max = 3 * 4096 + 64};
	int r = buf_put(&b, route, strlen(route));

	if (r == 0)
		r = buf_put(&b, "?path=", 6);
	if (r == 0)
		r = http_put_encoded(&b, path[0] != '\0' ? path : ".");
	if (r == 0)
		r = buf_put(&b, "", 1);
	*ret = r == 0 ? strdup((const char *)buf_head(&b)) : NULL;
	buf_done(&b);
	if (r == -ENOBUFS)
		return err_set(e, ERR_INVALID, ENAMETOOLONG, "the path inside is too long");
	return *ret == NULL ? err_no_memory(e) : 0;
}

static uint64_t moved(const struct flow *f)
{
	return f->raw ? f->bytes : f->in != NULL ? copy_in_sent(f->in) : copy_out_bytes(f->out);
}

/* Nothing of ours can go on until there is input: then the call is woken. */
static void wait_for_input(struct flow *f, struct pollfd *pf)
{
	if (!f->waits || pf->revents == 0)
		return;
	f->waits = false;
	http_go(&f->call);
}

static int drive(const struct copying *k, struct flow *f, const char *what, struct err *e)
{
	int r = api_to_box(&f->call, k->box, PORT_ENVD, k->user, e);

	f->call.arg = f;
	f->progress.on = !k->quiet && isatty(STDERR_FILENO);
	if (r == 0)
		r = http_start(&k->c->http, &f->call, e);
	progress_begin(&f->progress, what, loop_clock_ms());
	while (r == 0 && !f->call.done) {
		struct pollfd pf = {.fd = f->waits ? STDIN_FILENO : -1, .events = POLLIN};

		r = http_turn(&k->c->http, &pf, 1, f->progress.on ? TURN_MS : -1, e);
		wait_for_input(f, &pf);
		progress_show(&f->progress, loop_clock_ms(), moved(f), false);
	}
	progress_end(&f->progress);
	if (r == 0 && f->status < 0) {
		*e = f->e;
		r = f->status;
	}
	if (r == 0)
		r = api_status(k->c, &f->call, k->box->id, e);
	return r;
}

static void flow_done(const struct copying *k, struct flow *f, char *path)
{
	http_done(&k->c->http, &f->call);
	copy_in_free(f->in);
	copy_out_free(f->out);
	buf_done(&f->part);
	free(path);
}

static void on_warn(void *arg, const char *text)
{
	const struct copying *k = arg;

	if (!k->quiet)
		say("%s", text);
}

static struct copy_warn warn_for(const struct copying *k)
{
	union {
		const struct copying *c;
		void *v;
	} arg = {.c = k};

	return (struct copy_warn){.fn = on_warn, .arg = arg.v};
}

/* ---- in ---- */

static size_t pack_more(void *arg, char *p, size_t n)
{
	struct flow *f = arg;

	while (f->part.len == 0 && !f->complete) {
		int r = copy_in_fill(f->in, &f->part, &f->e);

		if (r < 0) {
			f->status = r;
			return CURL_READFUNC_ABORT;
		}
		f->complete = r == 0;
	}
	n = MIN(n, f->part.len);
	if (n > 0)
		memcpy(p, buf_head(&f->part), n);
	buf_consume(&f->part, n);
	return n;
}

int copying_in(const struct copying *k, const char *src, const char *path, struct err *e)
{
	const struct copy_in_opts o = {
	    .max_bytes = INT64_MAX, .max_entries = ENTRIES_MAX, .warn = warn_for(k)};
	struct flow f = {.part = {.max = (size_t)2 * COPY_IN_STEP}, .e = ERR_INIT};
	char *to = NULL;
	int r = copy_in_new(src, &o, &f.in, e);

	if (r == 0)
		r = target("/files/pack", path, &to, e);
	if (r == 0) {
		f.call = (struct http_call){.method = "POST",
					    .path = to,
					    .type = "application/x-brig-pack",
					    .fill = pack_more,
					    .patience = HTTP_STREAM};
		r = drive(k, &f, "copying in", e);
	}
	flow_done(k, &f, to);
	return r;
}

/* ---- out ---- */

static size_t unpack(void *arg, const char *p, size_t n)
{
	struct flow *f = arg;

	f->status = copy_out_feed(f->out, p, n, &f->e);
	return f->status == 0 ? n : 0;
}

int copying_out(const struct copying *k, const char *path, const char *dst, const char *name,
		struct err *e)
{
	const struct copy_out_opts o = {.dst = dst,
					.name = name,
					.max_bytes = k->max_bytes,
					.max_apparent = MAX(APPARENT_MAX, k->max_bytes),
					.max_entries = ENTRIES_MAX,
					.max_folders = ENTRIES_MAX,
					.warn = warn_for(k)};
	struct flow f = {.e = ERR_INIT};
	char *from = NULL;
	int r = copy_out_new(&o, &f.out, e);

	if (r == 0)
		r = target("/files/pack", path, &from, e);
	if (r == 0) {
		f.call = (struct http_call){
		    .method = "GET", .path = from, .take = unpack, .patience = HTTP_STREAM};
		r = drive(k, &f, "copying out", e);
	}
	if (r == 0)
		r = copy_out_finish(f.out, e);
	flow_done(k, &f, from);
	return r;
}

/* ---- standard input and output: one file as it is ---- */

static size_t read_input(void *arg, char *p, size_t n)
{
	struct pollfd pf = {.fd = STDIN_FILENO, .events = POLLIN};
	struct flow *f = arg;
	ssize_t got;

	if (poll(&pf, 1, 0) == 0) {
		f->waits = true;
		return CURL_READFUNC_PAUSE;
	}
	got = read(STDIN_FILENO, p, n);
	if (got < 0) {
		f->status = err_set(&f->e, ERR_INTERNAL, errno, "reading standard input: %s",
				    strerror(errno));
		return CURL_READFUNC_ABORT;
	}
	f->bytes += (uint64_t)got;
	return (size_t)got;
}

int copying_stdin(const struct copying *k, const char *path, struct err *e)
{
	struct flow f = {.raw = true, .e = ERR_INIT};
	char *to = NULL;
	int r = target("/files", path, &to, e);

	if (r == 0) {
		f.call = (struct http_call){.method = "POST",
					    .path = to,
					    .type = "application/octet-stream",
					    .fill = read_input,
					    .patience = HTTP_PATIENT};
		r = drive(k, &f, "copying in", e);
	}
	flow_done(k, &f, to);
	return r;
}

static size_t write_output(void *arg, const char *p, size_t n)
{
	struct flow *f = arg;
	int r;

	if (n > f->max - f->bytes) {
		f->status = err_set(&f->e, ERR_LIMITED, EFBIG,
				    "more than %llu bytes of data to copy out",
				    (unsigned long long)f->max);
		return 0;
	}
	r = say_raw(STDOUT_FILENO, p, n);
	if (r < 0) {
		f->status =
		    err_set(&f->e, ERR_INTERNAL, -r, "writing standard output: %s", strerror(-r));
		return 0;
	}
	f->bytes += n;
	return n;
}

int copying_stdout(const struct copying *k, const char *path, struct err *e)
{
	struct flow f = {.raw = true, .max = k->max_bytes, .e = ERR_INIT};
	char *from = NULL;
	int r = target("/files", path, &from, e);

	if (r == 0) {
		f.call = (struct http_call){
		    .method = "GET", .path = from, .take = write_output, .patience = HTTP_PATIENT};
		r = drive(k, &f, "copying out", e);
	}
	flow_done(k, &f, from);
	return r;
}
