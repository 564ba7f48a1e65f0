#include "base/cleanup.h"
#include "base/quote.h"
#include "image/store_priv.h"
#include "sys/file.h"
#include "sys/ids.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/*
 * image.json: what an image is and where it comes from. Written once, before the image gets its place. Read back
 * strictly: the values came from hostile images in the first place (a user, an environment), and a
 * file that was edited or cut is refused, not guessed at.
 */

enum { SCHEMA = 1, INFO_MAX = 256 * 1024, WORDS_MAX = 1024 };

static json_t *text(const char *s) { return s == NULL ? json_null() : json_string(s); }

static json_t *words(const struct strv *v)
{
	json_t *a = json_array();

	for (uint32_t i = 0; a != NULL && i < v->n; i++)
		if (json_array_append_new(a, json_string(v->v[i])) < 0) {
			json_decref(a);
			return NULL;
		}
	return a;
}

static int put(int dirfd, const char *name, const char *p, size_t n)
{
	_cleanup_close_ int fd = openat(dirfd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	int r = fd < 0 ? -errno : file_write_all(fd, p, n);

	return r < 0 ? r : fsync(fd) < 0 ? -errno : 0;
}

static int put_packages(int dirfd, const struct strv *v)
{
	_cleanup_free_ char *all = NULL;
	size_t n = 0;
	FILE *f;

	if (v->n == 0)
		return 0;
	f = open_memstream(&all, &n);
	if (f == NULL)
		return -errno;
	for (uint32_t i = 0; i < v->n; i++)
		(void)fprintf(f, "%s\n", v->v[i]);
	return fclose(f) != 0 ? -ENOMEM : put(dirfd, "packages", all, n);
}

int info_write(int dirfd, const struct image_meta *m, const struct image_stats *st, const char *digest, struct err *e)
{
	json_t *j = json_pack("{s:i, s:s, s:o, s:o, s:I, s:I, s:I, s:I, s:b, s:{s:o, s:o, s:o, s:o, s:o}}", "schema",
			      SCHEMA, "digest", digest, "source", text(m->source), "source_digest",
			      text(m->source_digest), "created", (json_int_t)time(NULL), "bytes", (json_int_t)st->bytes,
			      "entries", (json_int_t)st->entries, "left_out", (json_int_t)st->left_out, "one_owner",
			      !ids_host_root(), "config", "user", text(m->user), "workdir", text(m->workdir), "arch",
			      text(m->arch), "env", words(&m->env), "cmd", words(&m->cmd));
	_cleanup_free_ char *s = j == NULL ? NULL : json_dumps(j, JSON_COMPACT);
	int r;

	json_decref(j);
	if (s == NULL)
		return err_set(e, ERR_INVALID, EINVAL, "image: its settings are no valid text");
	if (strlen(s) > INFO_MAX)
		return err_set(e, ERR_LIMITED, EFBIG, "image: its settings are longer than 256 KiB");
	r = put(dirfd, "image.json", s, strlen(s));
	if (r == 0)
		r = put_packages(dirfd, &m->packages);
	return r < 0 ? err_set(e, ERR_INTERNAL, -r, "image: writing image.json: %s", strerror(-r)) : 0;
}

/* ---- reading ---- */

static int get_text(json_t *o, const char *key, char **ret)
{
	json_t *v = json_object_get(o, key);

	if (v == NULL)
		return -EINVAL;
	if (json_is_null(v))
		return 0;
	if (!json_is_string(v) || strlen(json_string_value(v)) != json_string_length(v))
		return -EINVAL;
	*ret = strdup(json_string_value(v));
	return *ret == NULL ? -ENOMEM : 0;
}

static int get_words(json_t *o, const char *key, struct strv *ret)
{
	json_t *a = json_object_get(o, key);
	int r = json_is_array(a) && json_array_size(a) <= WORDS_MAX ? 0 : -EINVAL;

	for (size_t i = 0; r == 0 && i < json_array_size(a); i++) {
		json_t *v = json_array_get(a, i);

		r = json_is_string(v) ? strv_add(ret, json_string_value(v)) : -EINVAL;
	}
	return r;
}

static int get_number(json_t *o, const char *key, uint64_t *ret)
{
	json_t *v = json_object_get(o, key);

	if (!json_is_integer(v) || json_integer_value(v) < 0)
		return -EINVAL;
	*ret = (uint64_t)json_integer_value(v);
	return 0;
}

static int read_all(json_t *j, const char *digest, struct image_info *ret)
{
	json_t *c = json_object_get(j, "config"), *one = json_object_get(j, "one_owner");
	const char *own = json_string_value(json_object_get(j, "digest"));
	uint64_t schema;
	int r = get_number(j, "schema", &schema);

	if (r < 0 || schema != SCHEMA || own == NULL || strcmp(own, digest) != 0 || !json_is_object(c) ||
	    !json_is_boolean(one) || json_object_size(j) != 10 || json_object_size(c) != 5)
		return -EINVAL;
	ret->one_owner = json_is_true(one);
	if ((r = get_text(j, "source", &ret->source)) < 0 ||
	    (r = get_text(j, "source_digest", &ret->source_digest)) < 0 ||
	    (r = get_number(j, "created", &ret->created)) < 0 || (r = get_number(j, "bytes", &ret->bytes)) < 0 ||
	    (r = get_number(j, "entries", &ret->entries)) < 0 || (r = get_number(j, "left_out", &ret->left_out)) < 0 ||
	    (r = get_text(c, "user", &ret->user)) < 0 || (r = get_text(c, "workdir", &ret->workdir)) < 0 ||
	    (r = get_text(c, "arch", &ret->arch)) < 0 || (r = get_words(c, "env", &ret->env)) < 0 ||
	    (r = get_words(c, "cmd", &ret->cmd)) < 0)
		return r;
	return 0;
}

int image_info_read(const struct image_found *f, struct image_info *ret, struct err *e)
{
	_cleanup_free_ char *s = malloc(INFO_MAX + 1);
	ssize_t n = s == NULL ? -ENOMEM : file_get(f->lock_fd, "image.json", s, INFO_MAX + 1);
	json_error_t je;
	struct stat st;
	json_t *j;
	int r;

	*ret = (struct image_info){0};
	if (n < 0)
		return err_set(e, ERR_INVALID, (int)-n, "image %.12s: image.json: %s", f->digest, strerror((int)-n));
	j = json_loadb(s, (size_t)n, JSON_REJECT_DUPLICATES, &je);
	r = json_is_object(j) ? read_all(j, f->digest, ret) : -EINVAL;
	json_decref(j);
	if (fstatat(f->lock_fd, "image.erofs", &st, AT_SYMLINK_NOFOLLOW) == 0)
		ret->erofs = (uint64_t)st.st_size;
	if (r < 0) {
		image_info_done(ret);
		return err_set(e, ERR_INVALID, -r,
			       "image %.12s: image.json is not what brig wrote: remove the image and make it again",
			       f->digest);
	}
	return 0;
}

void image_info_done(struct image_info *i)
{
	free(i->source);
	free(i->source_digest);
	free(i->user);
	free(i->workdir);
	free(i->arch);
	strv_done(&i->env);
	strv_done(&i->cmd);
	*i = (struct image_info){0};
}
