#include "image/kind.h"

#include "base/cleanup.h"
#include "base/num.h"
#include "base/quote.h"
#include "parse/tar.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/*
 * By what is in it, never by its name. The file may be hostile: its headers go through the same
 * strict reader as those of an import, contents are skipped, and nothing is decided but which way
 * it goes in. A header that is refused ends the look: the import says what is wrong with it.
 */

static const struct {
	const char *tool; /* NULL: known, but nothing here unpacks it */
	uint8_t magic[6];
	uint8_t n;
} packers[] = {
    {"gzip", {0x1f, 0x8b}, 2},		      /* RFC 1952, 2.3.1 */
    {"zstd", {0x28, 0xb5, 0x2f, 0xfd}, 4},    /* RFC 8878, 3.1.1 */
    {"xz", {0xfd, '7', 'z', 'X', 'Z', 0}, 6}, /* xz-file-format.txt, 2.1.1.1 */
    {NULL, {'B', 'Z', 'h'}, 3},		      /* bzip2 */
    {NULL, {0x04, 0x22, 0x4d, 0x18}, 4},      /* lz4 */
    {NULL, {0x1f, 0x9d}, 2},		      /* compress */
};

/* The contents of an extended header at `at`. 0 or -EINVAL. */
static int take_meta(int fd, off_t at, size_t n, struct tar *t)
{
	_cleanup_free_ uint8_t *p = malloc(n);
	const char *why;

	return p != NULL && pread(fd, p, n, at) == (ssize_t)n && tar_meta(t, p, n, &why) == 0
		   ? 0
		   : -EINVAL;
}

/* An OCI layout counts more than docker's own list: its digests name everything in it. */
static enum image_kind kind_of_tar(int fd, struct tar *t, struct tar_entry *x)
{
	enum image_kind found = IMAGE_TAR;
	uint8_t block[TAR_BLOCK];
	off_t at = 0;

	for (int i = 0; i < IMAGE_KIND_ENTRIES &&
			pread(fd, block, sizeof(block), at) == (ssize_t)sizeof(block);
	     i++) {
		const char *why;
		size_t meta = 0;
		uint64_t skip;
		int r = tar_header(t, block, x, &meta, &why);

		at += TAR_BLOCK;
		if (r == TAR_META && take_meta(fd, at, meta, t) < 0)
			break;
		if (r < 0 || r == TAR_END)
			break;
		skip = r == TAR_META ? meta : x->size;
		if (r == TAR_ENTRY && x->type == TAR_FILE && strcmp(x->path, "oci-layout") == 0)
			return IMAGE_OCI_TAR;
		if (r == TAR_ENTRY && x->type == TAR_FILE && strcmp(x->path, "manifest.json") == 0)
			found = IMAGE_DOCKER_ARCHIVE;
		if (skip > (uint64_t)INT64_MAX / 2 - (uint64_t)at)
			break;
		at += (off_t)((skip + TAR_BLOCK - 1) & ~(uint64_t)(TAR_BLOCK - 1));
	}
	return found;
}

static int kind_of_file(int fd, const char *shown, enum image_kind *ret, const char **ret_tool,
			struct err *e)
{
	_cleanup_free_ struct tar *t = calloc(1, sizeof(*t));
	_cleanup_free_ struct tar_entry *x = malloc(sizeof(*x));
	uint8_t block[TAR_BLOCK] = {0};
	ssize_t n = pread(fd, block, sizeof(block), 0);
	const char *why;
	size_t meta;

	if (t == NULL || x == NULL)
		return err_no_memory(e);
	if (n < 0)
		return err_set(e, ERR_DENIED, errno, "%s: %s", shown, strerror(errno));
	for (size_t i = 0; i < ARRAY_LEN(packers); i++) {
		if ((size_t)n < packers[i].n || memcmp(block, packers[i].magic, packers[i].n) != 0)
			continue;
		if (packers[i].tool == NULL)
			return err_set(e, ERR_INVALID, EINVAL,
				       "%s: only gzip, zstd and xz are unpacked", shown);
		*ret = IMAGE_PACKED;
		*ret_tool = packers[i].tool;
		return 0;
	}
	if (n < (ssize_t)sizeof(block) || tar_header(t, block, x, &meta, &why) < 0) {
		/* what looks like a tar file otherwise is refused with the reader's own reason */
		if (n < (ssize_t)sizeof(block) || memcmp(block + 257, "ustar", 5) != 0)
			return err_set(e, ERR_INVALID, EINVAL,
				       "%s: neither a tar file, also packed by gzip, zstd or xz, "
				       "nor an OCI layout, nor an "
				       "archive of docker save",
				       shown);
	}
	*t = (struct tar){.meta = 0};
	*ret = kind_of_tar(fd, t, x);
	return 0;
}

int image_kind_of(const char *path, enum image_kind *ret, const char **ret_tool, struct err *e)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	char shown[QUOTE_MAX];
	struct stat st;

	*ret_tool = "";
	(void)quote(path, shown);
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_set(e, ERR_NOT_FOUND, errno, "%s: %s", shown, strerror(errno));
	if (S_ISDIR(st.st_mode)) {
		*ret = IMAGE_OCI_DIR;
		return faccessat(fd, "oci-layout", F_OK, 0) == 0
			   ? 0
			   : err_set(e, ERR_INVALID, EINVAL,
				     "%s: a folder, and no OCI layout: it has no file 'oci-layout'",
				     shown);
	}
	*ret = IMAGE_TAR; /* a pipe is read once: only the stream itself can tell */
	return S_ISREG(st.st_mode) ? kind_of_file(fd, shown, ret, ret_tool, e) : 0;
}
