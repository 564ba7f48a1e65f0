#include "keep/finfo.h"

#include "keep/text.h"
#include "parse/stamp.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

/* Fed by the agent, which is hostile: msg_next has checked lengths and limits; everything else is
 * taken as text or number and only written out. */

static void take(struct finfo *f, const struct msg_item *it)
{
	struct finfo_text s = {(const char *)it->data, it->len};

	switch ((int)it->field) {
	case F_NAME:
		f->name = s;
		break;
	case F_TARGET:
		f->target = s;
		break;
	case F_OWNER:
		f->owner = s;
		break;
	case F_GROUP:
		f->group = s;
		break;
	case F_REAL:
		f->real = s;
		break;
	case F_XATTR:
		if (f->xattrs_n < FINFO_XATTRS_MAX)
			f->xattr[f->xattrs_n++] = s;
		break;
	case F_TYPE:
		f->type = it->u64;
		f->has_type = true;
		break;
	case F_SIZE:
		f->size = it->u64;
		break;
	case F_MODE:
		f->mode = it->u64;
		break;
	case F_UID:
		f->uid = it->u64;
		break;
	case F_GID:
		f->gid = it->u64;
		break;
	case F_MTIME:
		f->mtime_ns = it->u64;
		break;
	case F_EVENT:
		f->event = it->u64;
		break;
	case F_REAL_TYPE:
		f->real_type = it->u64;
		f->has_real_type = true;
		break;
	case F_REAL_MODE:
		f->real_mode = it->u64;
		break;
	default:
		break;
	}
}

int finfo_read(struct msg_reader *r, struct finfo *ret)
{
	struct msg_item it;
	int got;

	*ret = (struct finfo){.xattrs_n = 0};
	while ((got = msg_next(r, &it)) > 0)
		take(ret, &it);
	return got;
}

/* ---- EntryInfo ---- */

static const char *type_word(uint64_t type)
{
	switch (type) {
	case DT_REG:
		return "FILE_TYPE_FILE";
	case DT_DIR:
		return "FILE_TYPE_DIRECTORY";
	case DT_LNK:
		return "FILE_TYPE_SYMLINK";
	default:
		return "FILE_TYPE_UNSPECIFIED";
	}
}

/* As Go writes a mode: letters for what it is, then nine for the bits. */
static void permissions(const struct finfo *f, char dst[16])
{
	static const char bits[] = "rwxrwxrwx";
	char *d = dst;

	if (f->type == DT_DIR)
		*d++ = 'd';
	if (f->type == DT_LNK)
		*d++ = 'L';
	if (f->type == DT_BLK || f->type == DT_CHR)
		*d++ = 'D';
	if (f->type == DT_FIFO)
		*d++ = 'p';
	if (f->type == DT_SOCK)
		*d++ = 'S';
	if (f->mode & 04000)
		*d++ = 'u';
	if (f->mode & 02000)
		*d++ = 'g';
	if (f->type == DT_CHR)
		*d++ = 'c';
	if (f->mode & 01000)
		*d++ = 't';
	if (d == dst)
		*d++ = '-';
	for (int i = 0; i < 9; i++)
		*d++ = f->mode & (0400u >> i) ? bits[i] : '-';
	*d = '\0';
}

static int put_time(struct buf *b, uint64_t ns)
{
	char text[STAMP_SIZE];

	return text_putf(b, ",\"modifiedTime\":\"%s\"", stamp_text((int64_t)(ns / 1000000000), (uint32_t)(ns % 1000000000), 9, text));
}

static int put_owner(struct buf *b, const char *key, struct finfo_text name, uint64_t id)
{
	int r = text_putf(b, ",\"%s\":", key);

	if (r < 0)
		return r;
	return name.p != NULL ? text_put_json(b, name.p, name.n)
			      : text_putf(b, "\"%llu\"", (unsigned long long)id);
}

static int put_metadata(struct buf *b, const struct finfo *f)
{
	static const char prefix[] = FINFO_METADATA;
	bool any = false;
	int r = 0;

	for (uint32_t i = 0; r == 0 && i < f->xattrs_n; i++) {
		const char *p = f->xattr[i].p, *eq = memchr(p, '=', f->xattr[i].n);
		size_t skip = sizeof(prefix) - 1;

		if (eq == NULL || (size_t)(eq - p) <= skip || memcmp(p, prefix, skip) != 0)
			continue;
		r = text_put(b, any ? "," : ",\"metadata\":{");
		any = true;
		if (r == 0)
			r = text_put_json(b, p + skip, (size_t)(eq - p) - skip);
		if (r == 0)
			r = text_put(b, ":");
		if (r == 0)
			r = text_put_json(b, eq + 1, f->xattr[i].n - (size_t)(eq - p) - 1);
	}
	return r == 0 && any ? text_put(b, "}") : r;
}

static int put_names(struct buf *b, const char *path, size_t n)
{
	const char *slash = memrchr(path, '/', n);
	size_t at = slash != NULL && n > 1 ? (size_t)(slash - path) + 1 : 0;
	int r = text_put(b, "{\"name\":");

	if (r == 0)
		r = text_put_json(b, path + at, n - at);
	if (r == 0)
		r = text_put(b, ",\"path\":");
	return r == 0 ? text_put_json(b, path, n) : r;
}

int finfo_put(struct buf *b, const struct finfo *f, const char *path, size_t path_n)
{
	bool link = f->type == DT_LNK;
	uint64_t type = link && f->has_real_type ? f->real_type : link ? DT_UNKNOWN : f->type;
	uint64_t mode = link && f->has_real_type ? f->real_mode : link ? 0 : f->mode;
	struct finfo_text real = f->real.p != NULL ? f->real : (struct finfo_text){path, path_n};
	char perm[16];
	int r = put_names(b, path, path_n);

	permissions(f, perm);
	if (r == 0)
		r = text_putf(
		    b, ",\"type\":\"%s\",\"size\":\"%llu\",\"mode\":%u,\"permissions\":\"%s\"",
		    type_word(type), (unsigned long long)f->size, (unsigned)(mode & 0777), perm);
	if (r == 0)
		r = put_owner(b, "owner", f->owner, f->uid);
	if (r == 0)
		r = put_owner(b, "group", f->group, f->gid);
	if (r == 0)
		r = put_time(b, f->mtime_ns);
	if (r == 0 && link)
		r = text_put(b, ",\"symlinkTarget\":");
	if (r == 0 && link)
		r = text_put_json(b, real.p, real.n);
	if (r == 0)
		r = put_metadata(b, f);
	return r == 0 ? text_put(b, "}") : r;
}
