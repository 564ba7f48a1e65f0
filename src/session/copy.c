#include "session/copy.h"

#include "base/quote.h"
#include "sys/file.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { REQUEST_MAX = 64 * 1024 };

/* Theory of operation. Names come from a project's files or from a sandbox, so they are quoted before
 * anybody shows them, and warnings are counted on but no longer shown after the first few: a hostile
 * tree could have a million reasons. */

void copy_warn(struct copy_warn *w, const char *path, const char *why)
{
	char text[256], q[QUOTE_MAX];

	if (w == NULL)
		return;
	w->count++;
	if (w->fn == NULL || w->shown >= COPY_WARN_MAX)
		return;
	w->shown++;
	(void)snprintf(text, sizeof(text), "%s: %s", quote(path[0] != '\0' ? path : ".", q), why);
	w->fn(w->arg, text);
}

int copy_tee_open(struct copy_tee *t, uint64_t max, struct err *e)
{
	*t = (struct copy_tee){.fd = memfd_create("brig-copy", MFD_CLOEXEC), .max = max};
	if (t->fd < 0)
		return err_set(e, ERR_INTERNAL, errno, "memfd_create: %s", strerror(errno));
	return 0;
}

int copy_tee_put(struct copy_tee *t, const void *p, size_t n, struct err *e)
{
	int r;

	if (t->fd < 0)
		return 0;
	if (n > t->max - t->len)
		return err_set(e, ERR_LIMITED, EFBIG, "more than %llu bytes to keep for a comparison",
			       (unsigned long long)t->max);
	r = file_write_all(t->fd, p, n);
	if (r < 0)
		return err_set(e, ERR_INTERNAL, -r, "writing to a memory file: %s", strerror(-r));
	t->len += n;
	return 0;
}

void copy_tee_close(struct copy_tee *t)
{
	if (t->fd >= 0)
		(void)close(t->fd);
	t->fd = -1;
}

int copy_open(struct session *s, enum req_kind kind, const char *path, const char *user, uint32_t flags,
	      const struct stream_ops *ops, void *arg, struct stream **ret, struct err *e)
{
	struct buf req;
	struct msg_writer w = {.b = &req};
	int r;

	buf_init(&req, REQUEST_MAX);
	msg_u64(&w, F_KIND, kind);
	msg_u64(&w, F_FLAGS, flags);
	msg_str(&w, F_PATH, path);
	if (user != NULL)
		msg_str(&w, F_USER, user);
	r = w.err < 0 ? err_set(e, ERR_INVALID, -w.err, "the path inside is too long")
		      : session_open(s, &req, NULL, 0, ops, arg, ret, e);
	buf_done(&req);
	return r;
}
