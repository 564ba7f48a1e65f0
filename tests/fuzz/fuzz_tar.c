/* The tar reader on arbitrary blocks. The first byte says whether checksums are made right first.
 */
#include "base/num.h"
#include "fuzz/tar_fix.h"
#include "parse/tar.h"

#include <errno.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

/* Of the one form paths have: relative, no empty, "." or ".." component, bounded. */
static void check_path(const char *s)
{
	size_t depth = 0, n;

	if (memchr(s, '\0', TAR_PATH_MAX) == NULL)
		abort();
	while (*s != '\0') {
		n = strcspn(s, "/");
		if (n == 0 || n > 255 || (n == 1 && *s == '.') ||
		    (n == 2 && memcmp(s, "..", 2) == 0) || ++depth > TAR_DEPTH_MAX)
			abort();
		s += n;
		if (*s == '/' && *++s == '\0')
			abort();
	}
}

static void check_entry(const struct tar_entry *e)
{
	bool link = e->type == TAR_SYMLINK || e->type == TAR_HARDLINK;

	check_path(e->path);
	if (e->type > TAR_SPECIAL || e->mode > 07777 || e->mtime < 0 ||
	    (e->type != TAR_FILE && e->size != 0) || e->size > INT64_MAX ||
	    (e->path[0] == '\0' && e->type != TAR_DIR))
		abort();
	if (memchr(e->target, '\0', TAR_PATH_MAX) == NULL || (e->target[0] != '\0') != link)
		abort();
	if (e->type == TAR_HARDLINK)
		check_path(e->target);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	static const struct tar fresh;
	static struct tar t;
	static struct tar_entry e;
	uint8_t block[TAR_BLOCK];
	const char *why = NULL;
	bool fix;

	if (n == 0)
		return 0;
	fix = (*p & 1) != 0;
	p++;
	n--;
	t = fresh;
	while (n >= TAR_BLOCK) {
		size_t meta = 0;
		int r;

		memcpy(block, p, sizeof(block));
		if (fix)
			tar_fix(block);
		p += TAR_BLOCK;
		n -= TAR_BLOCK;
		r = tar_header(&t, block, &e, &meta, &why);
		if (r < 0)
			break;
		if (r == TAR_ENTRY) {
			uint64_t skip = e.size + (-e.size & (TAR_BLOCK - 1));

			check_entry(&e);
			if (skip > n)
				break;
			p += skip;
			n -= (size_t)skip;
		} else if (r == TAR_META) {
			_Static_assert(TAR_META_MAX % TAR_BLOCK == 0, "padding");
			size_t skip = meta + (-meta & (TAR_BLOCK - 1));

			if (meta == 0 || meta > TAR_META_MAX)
				abort();
			if (skip > n)
				break;
			if (tar_meta(&t, p, meta, &why) < 0)
				break;
			p += skip;
			n -= skip;
		} else if (r != TAR_END) {
			abort();
		}
		if (r != TAR_END && t.ended)
			abort();
	}
	return 0;
}
