#include "cli/run_path.h"

#include "base/quote.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* Words of the caller's; the side that is inside is made one spelling, so that what is checked is what is used. */

void path_pair_done(struct path_pair *p)
{
	free(p->left);
	free(p->right);
	*p = (struct path_pair){NULL, NULL};
}

static int split(const char *word, struct path_pair *ret, struct err *e)
{
	const char *colon = strrchr(word, ':');

	*ret = (struct path_pair){NULL, NULL};
	ret->left = colon != NULL ? strndup(word, (size_t)(colon - word)) : strdup(word);
	if (colon != NULL)
		ret->right = strdup(colon + 1);
	if (ret->left == NULL || (colon != NULL && ret->right == NULL)) {
		path_pair_done(ret);
		return err_no_memory(e);
	}
	return 0;
}

/* Make *path absolute inside the sandbox, without "..", doubled and trailing slashes. */
static int make_inside(char **path, const char *option, struct err *e)
{
	char full[PATH_MAX], q[QUOTE_MAX], *copy;
	const char *c = *path;
	size_t at = 0;

	if (*c != '/') {
		memcpy(full, "/workspace", 10);
		at = 10;
	}
	while (*c != '\0') {
		size_t n;

		c += strspn(c, "/");
		n = strcspn(c, "/");
		if (n == 2 && memcmp(c, "..", 2) == 0)
			return err_set(e, ERR_INVALID, EINVAL, "%s: %s: '..' is not allowed inside",
				       option, quote(*path, q));
		if (n > 0 && !(n == 1 && c[0] == '.')) {
			if (n >= sizeof(full) - at - 1)
				return err_set(e, ERR_INVALID, ENAMETOOLONG, "%s: %s: too long",
					       option, quote(*path, q));
			full[at++] = '/';
			memcpy(full + at, c, n);
			at += n;
		}
		c += n;
	}
	if (at == 0)
		full[at++] = '/';
	full[at] = '\0';
	copy = strdup(full);
	if (copy == NULL)
		return err_no_memory(e);
	free(*path);
	*path = copy;
	return 0;
}

/* The last component of a host path; "." and ".." have none of their own. */
static const char *last_part(const char *path, size_t *len)
{
	size_t end = strlen(path), start;

	while (end > 1 && path[end - 1] == '/')
		end--;
	start = end;
	while (start > 0 && path[start - 1] != '/')
		start--;
	*len = end - start;
	if ((*len == 1 && path[start] == '.') || (*len == 2 && memcmp(path + start, "..", 2) == 0))
		*len = 0;
	return path + start;
}

int parse_file_in(const char *word, struct path_pair *ret, struct err *e)
{
	char q[QUOTE_MAX];
	int r = split(word, ret, e);

	if (r < 0)
		return r;
	if (ret->left[0] == '\0' || (ret->right != NULL && ret->right[0] == '\0'))
		r = err_set(e, ERR_INVALID, EINVAL, "--file %s: SRC or SRC:DST is needed",
			    quote(word, q));
	if (r == 0 && ret->right == NULL) { /* a folder's own contents for "." */
		size_t n;
		const char *base = last_part(ret->left, &n);

		ret->right = n > 0 ? strndup(base, n) : strdup(".");
		if (ret->right == NULL)
			r = err_no_memory(e);
	}
	if (r == 0)
		r = make_inside(&ret->right, "--file", e);
	if (r < 0)
		path_pair_done(ret);
	return r;
}

int parse_file_out(const char *word, struct path_pair *ret, struct err *e)
{
	char q[QUOTE_MAX];
	int r = split(word, ret, e);

	if (r < 0)
		return r;
	if (ret->left[0] == '\0' || ret->right == NULL || ret->right[0] == '\0')
		r = err_set(e, ERR_INVALID, EINVAL,
			    "--out %s: PATH:DST is needed, a path inside and one of yours",
			    quote(word, q));
	if (r == 0)
		r = make_inside(&ret->left, "--out", e);
	if (r < 0)
		path_pair_done(ret);
	return r;
}
