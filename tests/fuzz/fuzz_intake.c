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
#include "sys/tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);
const char *__asan_default_options(void);

enum { MOST = 1 << 20 }; /* bytes of a stream */

/* Freed buffers are kept for less long than usual: with 256 MiB of them each run touches new memory, and that is half
 * of what it costs. */
const char *__asan_default_options(void)
{
	return "quarantine_size_mb=16";
}

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

/* The stream in a file of memory that is used again and again: a new one, and a write for each block, cost more than
 * the unpacking. */
static int stream(const uint8_t *p, size_t n)
{
	static uint8_t fixed[MOST];
	static int fd = -1;

	if (fd < 0 && (fd = memfd_create("tar", MFD_CLOEXEC)) < 0)
		abort();
	n = MIN(n, sizeof(fixed)) / TAR_BLOCK * TAR_BLOCK;
	memcpy(fixed, p, n);
	for (size_t at = 0; at < n; at += TAR_BLOCK)
		/* contents look like anything but a header: only what carries its magic is one */
		if (memcmp(fixed + at + 257, "ustar", 5) == 0)
			tar_fix(fixed + at);
	if (ftruncate(fd, 0) < 0 || pwrite(fd, fixed, n, 0) != (ssize_t)n || lseek(fd, 0, SEEK_SET) != 0)
		abort();
	return fd;
}

static void only_ours(int fd)
{
	static DIR *d;
	unsigned n = 0;

	if (d == NULL)
		d = fdopendir(openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	if (d == NULL)
		abort();
	rewinddir(d);
	while (readdir(d) != NULL)
		n++;
	if (n != 3) /* ".", ".." and "in" */
		abort();
}

static bool unpack(int dir, const uint8_t *p, size_t n, char digest[IMAGE_DIGEST_LEN + 1])
{
	const struct image_limits lim = {.bytes = 1 << 20, .entries = 64};
	_cleanup_close_ int in = -1;
	int tar = stream(p, n);
	char again[IMAGE_DIGEST_LEN + 1];
	struct contents *known = contents_new();
	struct err e = ERR_INIT;
	struct image_stats st;
	int r;

	if (mkdirat(dir, "in", 0700) < 0)
		abort();
	in = openat(dir, "in", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (in < 0 || known == NULL || sodium_init() < 0)
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
