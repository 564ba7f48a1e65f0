#include "base/cleanup.h"
#include "image/image.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * A name is turned into a digest here, once: what runs is the tree of that digest, whatever the name points
 * to a moment later. The image's settings were written by strangers: each is checked where the caller's own
 * would be, by spec_check and the tier.
 */

static int put(char **dst, const char *src, struct err *e)
{
	char *copy = src == NULL ? NULL : strdup(src);

	if (src != NULL && copy == NULL)
		return err_no_memory(e);
	free(*dst);
	*dst = copy;
	return 0;
}

static bool has(const struct strv *env, const char *kv)
{
	size_t n = strcspn(kv, "=");

	for (uint32_t i = 0; i < env->n; i++)
		if (strncmp(env->v[i], kv, n) == 0 && env->v[i][n] == '=')
			return true;
	return false;
}

static int take_settings(struct spec *s, const struct image_info *info, struct err *e)
{
	int r = 0;

	if (info->user != NULL && info->user[0] != '\0')
		r = put(&s->image_user, info->user, e);
	if (r == 0 && s->workdir == NULL && info->workdir != NULL && info->workdir[0] == '/' &&
	    info->workdir[1] != '\0')
		r = put(&s->workdir, info->workdir, e);
	for (uint32_t i = 0; r == 0 && i < info->env.n; i++)
		if (!has(&s->env, info->env.v[i]) && strv_add(&s->env, info->env.v[i]) < 0)
			r = err_no_memory(e);
	return r;
}

int image_use(struct spec *s, struct err *e)
{
	struct image_found f = {.lock_fd = -1};
	struct image_info info;
	char digest[IMAGE_DIGEST_LEN + 8];
	int r;

	if (!image_is_ref(s->image))
		return 0;
	r = image_resolve(s->image, &f, e);
	if (r < 0)
		return r;
	r = image_info_read(&f, &info, e);
	if (r == 0) {
		(void)snprintf(digest, sizeof(digest), "sha256:%s", f.digest);
		r = put(&s->image_digest, digest, e);
		if (r == 0)
			r = put(&s->image, f.tree, e);
		if (r == 0)
			r = take_settings(s, &info, e);
		image_info_done(&info);
	}
	if (r == 0) {
		s->image_held = true;
		s->image_fd = steal_fd(&f.lock_fd);
	}
	image_found_done(&f);
	return r;
}
