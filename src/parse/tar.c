#include "parse/tar.h"

#include "base/num.h"

#include <errno.h>
#include <string.h>

/*
 * Theory of operation. A header block says what comes next. Extended headers ('x' of pax, 'L' and 'K' of
 * GNU) set fields for the next entry only, are bounded, and may come once each. Global headers ('g') may
 * hold comments only: a value for all entries that follow is what nobody needs and many confuse.
 *
 * Nothing is repaired: what two readers could read in two ways is refused (checksum, unterminated
 * numbers, a size with a type that has none, sparse files).
 */

struct ustar { /* POSIX.1-2017, pax, table "ustar Header Block" */
	char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], chksum[8];
	char type;
	char link[100], magic[6], version[2], uname[32], gname[32], devmajor[8], devminor[8];
	char prefix[155], pad[12];
};
_Static_assert(sizeof(struct ustar) == TAR_BLOCK, "a header is one block");

static int no(const char **why, const char *text)
{
	*why = text;
	return -EINVAL;
}

/* Octal digits, with leading blanks, ended by a blank, a NUL or the field's end; an empty field is 0. */
static int octal(const char *f, size_t n, uint64_t *ret)
{
	uint64_t v = 0;
	size_t i = 0;

	while (i < n && f[i] == ' ')
		i++;
	for (; i < n && f[i] >= '0' && f[i] <= '7'; i++) {
		if (v > UINT64_MAX >> 3)
			return -EINVAL;
		v = v << 3 | (uint64_t)(f[i] - '0');
	}
	for (; i < n; i++)
		if (f[i] != ' ' && f[i] != '\0')
			return -EINVAL;
	*ret = v;
	return 0;
}

/* GNU: the first bit set, then a big-endian number. Negative ones are refused. */
static int number(const char *f, size_t n, uint64_t *ret)
{
	uint64_t v = 0;

	if (((uint8_t)f[0] & 0x80) == 0)
		return octal(f, n, ret);
	if ((uint8_t)f[0] != 0x80)
		return -EINVAL;
	for (size_t i = 1; i < n; i++) {
		if (v > UINT64_MAX >> 8)
			return -EINVAL;
		v = v << 8 | (uint8_t)f[i];
	}
	*ret = v;
	return 0;
}

static bool checksum_ok(const uint8_t *b, const struct ustar *h)
{
	uint64_t want, sum = 0;

	if (octal(h->chksum, sizeof(h->chksum), &want) < 0)
		return false;
	for (size_t i = 0; i < TAR_BLOCK; i++)
		sum += i >= offsetof(struct ustar, chksum) && i < offsetof(struct ustar, type) ? ' ' : b[i];
	return sum == want;
}

/* Bring a path into the one form of struct tar_entry. */
static int normal_path(char *p, const char **why)
{
	size_t in = 0, out = 0, depth = 0;
	size_t n = strlen(p);

	if (p[0] == '/')
		return no(why, "an absolute path");
	while (in < n) {
		size_t len = strcspn(p + in, "/");

		if (len == 0)
			return no(why, "an empty path component");
		if (len == 2 && p[in] == '.' && p[in + 1] == '.')
			return no(why, "a '..' in the path");
		if (len > 255)
			return no(why, "a path component longer than 255 bytes");
		if (!(len == 1 && p[in] == '.')) {
			if (++depth > TAR_DEPTH_MAX)
				return no(why, "a path of more than 128 components");
			if (out > 0)
				p[out++] = '/';
			memmove(p + out, p + in, len);
			out += len;
		}
		in += len;
		if (in < n && p[in] == '/' && ++in == n)
			break; /* one closing slash */
	}
	p[out] = '\0';
	return 0;
}

static void header_path(const struct ustar *h, char dst[TAR_PATH_MAX])
{
	size_t n = 0, len;

	if (memcmp(h->magic, "ustar\0", 6) == 0 && h->prefix[0] != '\0') {
		n = strnlen(h->prefix, sizeof(h->prefix));
		memcpy(dst, h->prefix, n);
		dst[n++] = '/';
	}
	len = strnlen(h->name, sizeof(h->name));
	memcpy(dst + n, h->name, len);
	dst[n + len] = '\0';
}

static int begin_meta(struct tar *t, const struct ustar *h, uint64_t size, size_t *ret_meta, const char **why)
{
	if (size == 0 || size > TAR_META_MAX)
		return no(why, "an extended header that is empty or longer than 64 KiB");
	t->meta = h->type;
	t->meta_size = (size_t)size;
	*ret_meta = (size_t)size;
	return TAR_META;
}

/* What a type byte means; -EINVAL for one this reader does not know. */
static int type_of(char type, enum tar_type *ret)
{
	switch (type) {
	case '0':
	case '\0':
	case '7':
		*ret = TAR_FILE;
		return 0;
	case '1':
		*ret = TAR_HARDLINK;
		return 0;
	case '2':
		*ret = TAR_SYMLINK;
		return 0;
	case '3':
	case '4':
	case '6':
		*ret = TAR_SPECIAL;
		return 0;
	case '5':
		*ret = TAR_DIR;
		return 0;
	default:
		return -EINVAL;
	}
}

static int fill_target(const struct tar *t, const struct ustar *h, struct tar_entry *e, const char **why)
{
	e->target[0] = '\0';
	if (e->type != TAR_SYMLINK && e->type != TAR_HARDLINK)
		return t->has_target ? no(why, "a link target for something that is no link") : 0;
	if (t->has_target) {
		memcpy(e->target, t->target, sizeof(e->target));
	} else {
		size_t n = strnlen(h->link, sizeof(h->link));

		memcpy(e->target, h->link, n);
		e->target[n] = '\0';
	}
	if (e->target[0] == '\0')
		return no(why, "a link without a target");
	if (e->type != TAR_HARDLINK)
		return 0;
	if (normal_path(e->target, why) < 0)
		return -EINVAL;
	return e->target[0] == '\0' ? no(why, "a hard link to the root folder") : 0;
}

static int fill(struct tar *t, const struct ustar *h, struct tar_entry *e, const char **why)
{
	uint64_t mode, uid, gid, size, mtime;

	if (number(h->mode, sizeof(h->mode), &mode) < 0 || number(h->uid, sizeof(h->uid), &uid) < 0 ||
	    number(h->gid, sizeof(h->gid), &gid) < 0 || number(h->size, sizeof(h->size), &size) < 0 ||
	    number(h->mtime, sizeof(h->mtime), &mtime) < 0)
		return no(why, "a number that is none");
	if (t->has_path)
		memcpy(e->path, t->path, sizeof(e->path));
	else
		header_path(h, e->path);
	if (e->path[0] == '\0')
		return no(why, "an empty path");
	if (e->type != TAR_DIR && e->path[strlen(e->path) - 1] == '/')
		return no(why, "a closing slash for something that is no folder");
	if (normal_path(e->path, why) < 0)
		return -EINVAL;
	size = t->has_size ? t->size : size;
	uid = t->has_uid ? t->uid : uid;
	gid = t->has_gid ? t->gid : gid;
	if (uid > UINT32_MAX || gid > UINT32_MAX)
		return no(why, "an owner that is no id");
	if (size > INT64_MAX || mtime > INT64_MAX)
		return no(why, "a number out of range");
	e->uid = (uint32_t)uid;
	e->gid = (uint32_t)gid;
	e->mode = (uint32_t)(mode & 07777);
	e->size = size;
	e->mtime = t->has_mtime ? t->mtime : (int64_t)mtime;
	/* pax writes the size of the file for hard links too, with nothing following; others do not */
	if (e->type != TAR_FILE && size != 0)
		return no(why, "contents for something that is no file");
	if (e->path[0] == '\0' && e->type != TAR_DIR)
		return no(why, "a root that is no folder");
	return fill_target(t, h, e, why);
}

static bool all_zero(const uint8_t *b)
{
	for (size_t i = 0; i < TAR_BLOCK; i++)
		if (b[i] != 0)
			return false;
	return true;
}

static void forget(struct tar *t)
{
	t->has_path = t->has_target = t->has_size = t->has_uid = t->has_gid = t->has_mtime = false;
}

int tar_header(struct tar *t, const uint8_t block[TAR_BLOCK], struct tar_entry *ret, size_t *ret_meta,
	       const char **why)
{
	struct ustar h;
	uint64_t size;
	int r;

	memcpy(&h, block, sizeof(h));
	if (t->meta != 0)
		return no(why, "an extended header without its contents");
	if (all_zero(block)) {
		if (t->has_path || t->has_target)
			return no(why, "an extended header without an entry");
		t->ended = true;
		return TAR_END;
	}
	if (t->ended)
		return no(why, "bytes after the end");
	if (!checksum_ok(block, &h))
		return no(why, "a wrong header checksum");
	if (number(h.size, sizeof(h.size), &size) < 0)
		return no(why, "a size that is no number");
	if (h.type == 'x' || h.type == 'g' || h.type == 'L' || h.type == 'K')
		return begin_meta(t, &h, size, ret_meta, why);
	if (type_of(h.type, &ret->type) < 0)
		return no(why, h.type == 'S' ? "a sparse file" : "an entry of unknown type");
	r = fill(t, &h, ret, why);
	forget(t);
	return r < 0 ? r : TAR_ENTRY;
}

/* ---- extended headers ---- */

static int keep_text(const uint8_t *v, size_t n, char dst[TAR_PATH_MAX], bool *has, const char **why)
{
	if (*has)
		return no(why, "a name given twice");
	if (n == 0 || n >= TAR_PATH_MAX || memchr(v, '\0', n) != NULL)
		return no(why, "a name that is empty, too long or holds a NUL");
	memcpy(dst, v, n);
	dst[n] = '\0';
	*has = true;
	return 0;
}

/* Decimal digits and nothing else. */
static int decimal(const uint8_t *v, size_t n, uint64_t max, uint64_t *ret)
{
	uint64_t x = 0;
	size_t i = 0;

	for (; i < n && v[i] >= '0' && v[i] <= '9'; i++) {
		if (x > (max - (uint64_t)(v[i] - '0')) / 10)
			return -EINVAL;
		x = x * 10 + (uint64_t)(v[i] - '0');
	}
	*ret = x;
	return i > 0 && i == n ? 0 : -EINVAL;
}

static bool key_is(const uint8_t *k, size_t n, const char *name)
{
	return n == strlen(name) && memcmp(k, name, n) == 0;
}

static bool key_begins(const uint8_t *k, size_t n, const char *name)
{
	return n >= strlen(name) && memcmp(k, name, strlen(name)) == 0;
}

static int keep_number(const uint8_t *v, size_t n, uint64_t max, uint64_t *dst, bool *has, const char **why)
{
	if (*has || decimal(v, n, max, dst) < 0)
		return no(why, "an extended number that is none, or is given twice");
	*has = true;
	return 0;
}

static int pax_pair(struct tar *t, const uint8_t *k, size_t kn, const uint8_t *v, size_t vn, const char **why)
{
	uint64_t mtime = 0;
	int r;

	if (key_begins(k, kn, "GNU.sparse."))
		return no(why, "a sparse file");
	if (t->meta == 'g')
		return key_is(k, kn, "comment") ? 0 : no(why, "a global header that holds more than a comment");
	if (key_is(k, kn, "path"))
		return keep_text(v, vn, t->path, &t->has_path, why);
	if (key_is(k, kn, "linkpath"))
		return keep_text(v, vn, t->target, &t->has_target, why);
	if (key_is(k, kn, "size"))
		return keep_number(v, vn, INT64_MAX, &t->size, &t->has_size, why);
	if (key_is(k, kn, "uid"))
		return keep_number(v, vn, UINT32_MAX, &t->uid, &t->has_uid, why);
	if (key_is(k, kn, "gid"))
		return keep_number(v, vn, UINT32_MAX, &t->gid, &t->has_gid, why);
	if (key_is(k, kn, "mtime")) {
		const uint8_t *dot = memchr(v, '.', vn);

		/* whole seconds: a fraction is cut off */
		for (size_t i = dot == NULL ? vn : (size_t)(dot + 1 - v); i < vn; i++)
			if (v[i] < '0' || v[i] > '9')
				return no(why, "an extended time that is none");
		vn = dot == NULL ? vn : (size_t)(dot - v);
		r = keep_number(v, vn, INT64_MAX, &mtime, &t->has_mtime, why);
		t->mtime = (int64_t)mtime;
		return r;
	}
	return 0; /* other times, names of owners, extended attributes */
}

/* Records "LENGTH KEY=VALUE\n", where LENGTH counts all of it. */
static int pax(struct tar *t, const uint8_t *p, size_t n, const char **why)
{
	size_t at = 0;

	while (at < n) {
		const uint8_t *rec = p + at, *space, *eq;
		uint64_t len;

		space = memchr(rec, ' ', MIN(n - at, (size_t)8));
		if (space == NULL || decimal(rec, (size_t)(space - rec), TAR_META_MAX, &len) < 0 ||
		    len > n - at || len < (size_t)(space - rec) + 4 || rec[len - 1] != '\n')
			return no(why, "an extended header of wrong form");
		space++;
		eq = memchr(space, '=', (size_t)len - (size_t)(space - rec) - 1);
		if (eq == NULL || eq == space)
			return no(why, "an extended header of wrong form");
		if (pax_pair(t, space, (size_t)(eq - space), eq + 1, (size_t)(rec + len - 1 - (eq + 1)), why) < 0)
			return -EINVAL;
		at += (size_t)len;
	}
	return 0;
}

int tar_meta(struct tar *t, const uint8_t *p, size_t n, const char **why)
{
	char meta = t->meta;
	int r;

	if (meta == 0 || n != t->meta_size)
		return no(why, "contents of an extended header nobody announced");
	if (meta == 'x' || meta == 'g') {
		r = pax(t, p, n, why);
	} else {
		size_t len = n - (p[n - 1] == '\0'); /* GNU counts the end */

		r = meta == 'L' ? keep_text(p, len, t->path, &t->has_path, why)
				: keep_text(p, len, t->target, &t->has_target, why);
	}
	t->meta = 0;
	return r;
}
