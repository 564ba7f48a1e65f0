/*
 * The unpacker on arbitrary streams (checksums made right), in a folder of its own: whatever comes,
 * what lies beside that folder stays as it was, what was unpacked can be digested and removed, and
 * a stream that was accepted gives the same digest twice, and the sums made while it was written are
 * those of what can be read.
 */
#include "base/cleanup.h"
#include "base/num.h"
#include "fuzz/tar_fix.h"
#include "image/contents.h"
#include "image/store_priv.h"

#include <dirent.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

static char base[64];

static void remove_base(void) { (void)rmdir(base); }

static int base_fd(void)
{
	static int fd = -1;

	if (fd < 0) {
		(void)snprintf(base, sizeof(base), "%s/fuzz-intake-XXXXXX",
			       access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
		if (mkdtemp(base) == NULL ||
		    (fd = open(base, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0 ||
		    atexit(remove_base) != 0)
			abort();
	}
	return fd;
}

static int stream(const uint8_t *p, size_t n)
{
	int fd = memfd_create("tar", MFD_CLOEXEC);

	for (size_t at = 0; at + TAR_BLOCK <= n; at += TAR_BLOCK) {
		uint8_t b[TAR_BLOCK];

		memcpy(b, p + at, sizeof(b));
		/* contents look like anything but a header: only what carries its magic is one */
		if (memcmp(b + 257, "ustar", 5) == 0)
			tar_fix(b);
		if (write(fd, b, sizeof(b)) != (ssize_t)sizeof(b))
			abort();
	}
	return lseek(fd, 0, SEEK_SET) == 0 ? fd : -1;
}

static void only_ours(int fd)
{
	int copy = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fdopendir(copy);
	struct dirent *e;
	unsigned n = 0;

	if (d == NULL)
		abort();
	while ((e = readdir(d)) != NULL)
		n++;
	(void)closedir(d);
	if (n != 3) /* ".", ".." and "in" */
		abort();
}

static bool unpack(int dir, const uint8_t *p, size_t n, char digest[IMAGE_DIGEST_LEN + 1])
{
	const struct image_limits lim = {.bytes = 1 << 20, .entries = 64};
	_cleanup_close_ int in = -1, tar = stream(p, n);
	char again[IMAGE_DIGEST_LEN + 1];
	struct contents *known = contents_new();
	struct err e = ERR_INIT;
	struct image_stats st;
	int r;

	if (mkdirat(dir, "in", 0700) < 0)
		abort();
	in = openat(dir, "in", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (in < 0 || tar < 0 || known == NULL || sodium_init() < 0)
		abort();
	r = intake_unpack(tar, in, &lim, NULL, NULL, known, &st, &e);
	if (r < 0 && (e.kind == ERR_NONE || e.msg[0] == '\0'))
		abort();
	if (r == 0 && (st.entries > lim.entries || st.bytes > lim.bytes))
		abort();
	if (r == 0 && (tree_digest(in, known, digest, &e) < 0 || tree_digest(in, NULL, again, &e) < 0 || strcmp(digest, again) != 0))
		abort();
	contents_free(known);
	only_ours(dir);
	if (tree_remove(dir, "in") < 0)
		abort();
	return r == 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	char one[IMAGE_DIGEST_LEN + 1], two[IMAGE_DIGEST_LEN + 1];
	int dir = base_fd();

	if (unpack(dir, p, n, one) && (!unpack(dir, p, n, two) || strcmp(one, two) != 0))
		abort();
	return 0;
}
