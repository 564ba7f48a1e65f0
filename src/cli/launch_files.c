#include "cli/launch_files.h"
/*
 * The list of copies of one launch. All of one direction run at once over the same session; flow
 * control keeps each bounded. A feed is a pack stream that an earlier sandbox made, so its bytes are
 * as hostile as they were then: they are only handed to another sandbox, whose agent checks them.
 */
#include "base/num.h"
#include "base/quote.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FEED_CHUNK = 64 * 1024 };

struct item {
	struct item *next;
	char *inside;
	struct copy_in *in;   /* owned */
	struct copy_out *out; /* owned */
	const struct copy_tee *feed;
	uint64_t fed;
	struct stream *stream; /* of a feed that runs */
	bool ended, may_miss;
	struct stream_result result; /* of a feed */
};

struct launch_files {
	struct item *first, **tail;
	bool gitignore;
};

int launch_files_new(struct launch_files **ret, struct err *e)
{
	struct launch_files *f = calloc(1, sizeof(*f));

	if (f == NULL)
		return err_no_memory(e);
	f->tail = &f->first;
	*ret = f;
	return 0;
}

void launch_files_free(struct launch_files *f)
{
	struct item *i, *next;

	if (f == NULL)
		return;
	for (i = f->first; i != NULL; i = next) {
		next = i->next;
		copy_in_free(i->in);
		copy_out_free(i->out);
		free(i->inside);
		free(i);
	}
	free(f);
}

void launch_files_gitignore(struct launch_files *f) { f->gitignore = true; }

static struct item *add(struct launch_files *f, const char *inside)
{
	struct item *i = calloc(1, sizeof(*i));

	if (i == NULL)
		return NULL;
	i->inside = strdup(inside);
	if (i->inside == NULL) {
		free(i);
		return NULL;
	}
	*f->tail = i;
	f->tail = &i->next;
	return i;
}

int launch_files_in_take(struct launch_files *f, struct copy_in *c, const char *inside,
			 struct err *e)
{
	struct item *i = add(f, inside);

	if (i == NULL) {
		copy_in_free(c);
		return err_no_memory(e);
	}
	i->in = c;
	return 0;
}

int launch_files_out_take(struct launch_files *f, struct copy_out *c, const char *inside,
			  bool may_miss, struct err *e)
{
	struct item *i = add(f, inside);

	if (i == NULL) {
		copy_out_free(c);
		return err_no_memory(e);
	}
	i->out = c;
	i->may_miss = may_miss;
	return 0;
}

int launch_files_feed(struct launch_files *f, const struct copy_tee *tee, const char *inside,
		      struct err *e)
{
	struct item *i = add(f, inside);

	if (i == NULL)
		return err_no_memory(e);
	i->feed = tee;
	return 0;
}

bool launch_files_any(const struct launch_files *f, bool out)
{
	if (f == NULL)
		return false;
	for (const struct item *i = f->first; i != NULL; i = i->next)
		if ((i->out != NULL) == out)
			return true;
	return false;
}

/* ---- feeds ---- */

static void feed_more(void *arg, struct stream *s)
{
	struct item *i = (struct item *)arg;
	uint8_t chunk[FEED_CHUNK];

	while (i->fed < i->feed->len) {
		size_t want = (size_t)MIN(i->feed->len - i->fed, (uint64_t)sizeof(chunk));
		ssize_t n = pread(i->feed->fd, chunk, want, (off_t)i->fed), w;

		if (n <= 0) {
			stream_reset(s);
			return;
		}
		w = stream_write(s, chunk, (size_t)n);
		if (w <= 0)
			return; /* `writable` or the result comes */
		i->fed += (uint64_t)w;
	}
	stream_eof(s);
}

static void feed_result(void *arg, struct stream *s, const struct stream_result *r)
{
	struct item *i = (struct item *)arg;

	(void)s;
	i->stream = NULL;
	i->ended = true;
	i->result = *r;
}

static const struct stream_ops feed_ops = {.writable = feed_more, .result = feed_result};

static int feed_open(struct item *i, struct session *s, const char *user, struct err *e)
{
	struct msg_writer w = {NULL, 0};
	struct buf req;
	int r;

	buf_init(&req, MSG_RECORD_MAX);
	w.b = &req;
	msg_u64(&w, F_KIND, REQ_PACK_IN);
	msg_u64(&w, F_FLAGS, REQ_PARENTS);
	msg_str(&w, F_PATH, i->inside);
	if (user != NULL)
		msg_str(&w, F_USER, user);
	r = w.err != 0 ? err_set(e, ERR_INVALID, -w.err, "'%.200s': not a path", i->inside)
		       : session_open(s, &req, NULL, 0, &feed_ops, i, &i->stream, e);
	buf_done(&req);
	if (r == 0)
		feed_more(i, i->stream);
	return r;
}

static int feed_end(const struct item *i, struct err *e)
{
	char q[QUOTE_MAX], text[QUOTE_MAX];

	if (i->result.how == HOW_DONE && i->fed == i->feed->len)
		return 0;
	return err_set(e, ERR_INTERNAL, i->result.err, "copying %s in: %s: %s", quote(i->inside, q),
		       strerror(i->result.err), quote(i->result.text, text));
}

/* ---- all together ---- */

int launch_files_begin(struct launch_files *f, struct session *s, bool out, const char *user,
		       struct err *e)
{
	int r = 0;

	for (struct item *i = f->first; i != NULL && r == 0; i = i->next) {
		if ((i->out != NULL) != out)
			continue;
		if (i->in != NULL)
			r = copy_in_open(i->in, s, i->inside, user, REQ_PARENTS, e);
		else if (i->out != NULL)
			r = copy_out_open(i->out, s, i->inside, user,
					  f->gitignore ? REQ_GITIGNORE : 0, e);
		else
			r = feed_open(i, s, user, e);
	}
	return r;
}

static bool has_ended(const struct item *i)
{
	if (i->in != NULL)
		return copy_in_ended(i->in);
	return i->out != NULL ? copy_out_ended(i->out) : i->ended;
}

int launch_files_check(struct launch_files *f, bool out, struct err *e)
{
	int first = 0;

	for (const struct item *i = f->first; i != NULL; i = i->next)
		if ((i->out != NULL) == out && !has_ended(i))
			return 0;
	for (struct item *i = f->first; i != NULL && first == 0; i = i->next) {
		struct err mine = ERR_INIT;
		int r;

		if ((i->out != NULL) != out)
			continue;
		if (i->in != NULL)
			r = copy_in_end(i->in, &mine);
		else if (i->out != NULL)
			r = copy_out_end(i->out, &mine);
		else
			r = feed_end(i, &mine);
		if (r < 0 && !(i->may_miss && r == -ENOENT)) {
			first = r;
			*e = mine;
		}
	}
	return first < 0 ? first : 1;
}

uint64_t launch_files_bytes(const struct launch_files *f, bool out)
{
	uint64_t sum = 0;

	for (const struct item *i = f->first; i != NULL; i = i->next) {
		if ((i->out != NULL) != out)
			continue;
		if (i->in != NULL)
			sum += copy_in_sent(i->in);
		else
			sum += out ? copy_out_bytes(i->out) : i->fed;
	}
	return sum;
}

void launch_files_stop(struct launch_files *f)
{
	if (f == NULL)
		return;
	for (struct item *i = f->first; i != NULL; i = i->next) {
		copy_in_free(i->in);
		copy_out_free(i->out);
		i->in = NULL;
		i->out = NULL;
		i->ended = true;
	}
}
