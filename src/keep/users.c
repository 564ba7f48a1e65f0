#include "keep/users.h"

#include "base/base64.h"
#include "base/num.h"
#include "keep/priv.h"
#include "keep/query.h"
#include "parse/uri.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/*
 * The text of /etc/passwd is kept for FRESH_MS: it can only choose among the sandbox's own ids, and
 * the agent reads it again for every request. A name that is not in it makes it be read anew.
 */

enum { FRESH_MS = 2000 };

struct lookup {
	struct query q;
	struct talk *t;
	void (*then)(struct talk *t);
	char name[USER_STR_MAX]; /* "" = the default */
};

/* ---- who is meant ---- */

static int from_basic(const char *value, char name[USER_STR_MAX])
{
	uint8_t text[USER_STR_MAX];
	const char *colon;
	ssize_t n;

	if (strncasecmp(value, "basic ", 6) != 0)
		return 0; /* another scheme is not ours to read */
	value += 6 + strspn(value + 6, " ");
	n = base64_decode(value, strlen(value), text, sizeof(text) - 1);
	if (n < 0)
		return -EINVAL;
	text[n] = '\0';
	colon = memchr(text, ':', (size_t)n);
	if (memchr(text, '\0', (size_t)n) != NULL)
		return -EINVAL;
	n = colon != NULL ? colon - (const char *)text : n;
	memcpy(name, text, (size_t)n);
	name[n] = '\0';
	return 0;
}

static int wanted_name(const struct talk *t, const char *named, char name[USER_STR_MAX])
{
	const char *basic = call_find(&t->head, "authorization");
	int r;

	if (named != NULL)
		return snprintf(name, USER_STR_MAX, "%s", named) < USER_STR_MAX ? 0 : -EINVAL;
	name[0] = '\0';
	r = uri_get(uri_query(t->head.target), "username", name, USER_STR_MAX);
	if (r != -ENOENT)
		return r < 0 ? -EINVAL : 0;
	name[0] = '\0';
	return basic != NULL ? from_basic(basic, name) : 0;
}

/* ---- looking ---- */

static int look(const struct keep *k, const char *name, struct keep_user *u)
{
	int r = user_find(name, strlen(name), (const char *)buf_head(&k->passwd), k->passwd.len,
			  &u->is);

	if (r == 0)
		(void)snprintf(u->spec, sizeof(u->spec), "%s", name);
	return r;
}

/* The default: what the operator says, else `user`, else what the image says. */
static int look_default(const struct keep *k, struct keep_user *u)
{
	const struct spec *s = k->a->spec;

	if (s->user != NULL)
		return look(k, s->user, u);
	if (look(k, "user", u) == 0)
		return 0;
	return look(k, s->image_user != NULL ? s->image_user : "root", u);
}

void users_stop(struct talk *t)
{
	struct lookup *l = t->lookup;

	t->lookup = NULL;
	if (l != NULL)
		query_drop(&l->q);
	free(l);
}

/* True when this settled it. */
static bool settle(struct talk *t, bool last)
{
	struct lookup *l = t->lookup;
	struct keep_user u;
	void (*then)(struct talk *) = l->then;
	int r = l->name[0] != '\0' ? look(t->k, l->name, &u) : look_default(t->k, &u);

	if (r < 0 && !last)
		return false;
	if (r < 0)
		fail(t, FAIL_UNAUTHENTICATED, "invalid username: '%s'", l->name);
	else if ((t->user = malloc(sizeof(u))) == NULL)
		talk_cut(t);
	else
		*t->user = u;
	users_stop(t);
	if (t->user != NULL)
		then(t);
	return true;
}

static void on_passwd(struct query *q, const struct stream_result *r)
{
	struct lookup *l = (struct lookup *)q;
	struct keep *k = q->k;

	buf_done(&k->passwd);
	if (r->how == HOW_DONE && !q->too_long) {
		k->passwd = q->out;
		q->out = (struct buf){.max = 0};
	}
	k->passwd_ms = k->loop.now_ms;
	(void)settle(l->t, true);
}

static int read_passwd(struct lookup *l, struct err *e)
{
	struct buf req;
	struct msg_writer w = query_begin(&req, REQ_READ, 0, NULL);
	int r;

	msg_str(&w, F_PATH, "/etc/passwd");
	r = w.err < 0 ? w.err : query_open(l->t->k, &l->q, &req, USER_FILE_MAX, on_passwd, e);
	buf_done(&req);
	return r;
}

void users_find(struct talk *t, const char *named, void (*then)(struct talk *t))
{
	const struct keep *k = t->k;
	bool fresh = k->passwd_ms != 0 && k->loop.now_ms - k->passwd_ms < FRESH_MS;
	struct err e = ERR_INIT;
	struct lookup *l = calloc(1, sizeof(*l));

	if (l == NULL) {
		talk_cut(t);
		return;
	}
	l->t = t;
	l->then = then;
	t->lookup = l;
	if (wanted_name(t, named, l->name) < 0) {
		users_stop(t);
		fail(t, FAIL_UNAUTHENTICATED, "invalid username");
		return;
	}
	if (fresh && settle(t, false))
		return;
	if (read_passwd(l, &e) < 0) {
		users_stop(t);
		fail(t, FAIL_RESOURCE_EXHAUSTED, "%s", e.msg);
	}
}

void users_known(struct keep *k)
{
	if (k->passwd_ms != 0)
		k->passwd_ms = k->loop.now_ms;
}

void users_done(struct keep *k) { buf_done(&k->passwd); }

/* Without "//", "." and "..", by the text alone, as E2B's server does it. */
static void clean(char *path)
{
	char *out = path;
	const char *in = path;

	while (*in != '\0') {
		size_t n;

		in += strspn(in, "/");
		n = strcspn(in, "/");
		if (n == 2 && in[0] == '.' && in[1] == '.') {
			while (out > path && *--out != '/')
				;
		} else if (n > 0 && !(n == 1 && in[0] == '.')) {
			*out++ = '/';
			memmove(out, in, n);
			out += n;
		}
		in += n;
	}
	if (out == path)
		*out++ = '/';
	*out = '\0';
}

int users_path(const struct keep_user *u, const char *path, char dst[4096])
{
	bool home = path[0] != '/';
	int n;

	if (path[0] == '~' && (path[1] == '\0' || path[1] == '/'))
		path += path[1] == '/' ? 2 : 1;
	if (home && *path == '\0')
		n = snprintf(dst, 4096, "%s", u->is.home);
	else if (home)
		n = snprintf(dst, 4096, "%s%s%s", u->is.home,
			     strcmp(u->is.home, "/") == 0 ? "" : "/", path);
	else
		n = snprintf(dst, 4096, "%s", path);
	if (n >= 4096)
		return -ENAMETOOLONG;
	clean(dst);
	return 0;
}
