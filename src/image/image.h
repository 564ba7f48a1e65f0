#pragma once
/*
 * The store of images: root filesystems named by digest.
 *
 *   <state folder>/images/            0700
 *     sha256/<digest>/tree/           the root filesystem, ids from 0
 *     sha256/<digest>/image.json      what it is and where it comes from
 *     sha256/<digest>/packages        one NAME=VERSION a line, where known
 *     sha256/<digest>/image.erofs     the same as one file, once asked for; image.erofs.sha256 is its sum
 *     refs/<name>/<tag>               a digest
 *     tmp/<random>/                   being made; locked while its maker lives
 *
 * docs/images.md has the digest, the limits and what is refused. An image enters as a tar stream that may be
 * hostile, is checked entry by entry by a process of its own, and appears under its digest by one rename:
 * whoever is killed, and whatever disk is full, the store stays as it was. Callers are single-threaded.
 * Functions return 0 or a count, or -errno with *e set.
 */
#include "base/err.h"
#include "core/spec.h"

#include <stdbool.h>
#include <stdint.h>

enum {
	IMAGE_DIGEST_LEN = 64, /* hexadecimal digits of a digest */
	IMAGE_NAME_MAX = 128,  /* of a name, and of a tag */
	IMAGE_PATH_MAX = 512,
};

struct image_limits { /* 0 = the default */
	uint64_t bytes;   /* of all files together; 64 GiB */
	uint64_t entries; /* 4,000,000 */
	uint64_t time_ms; /* until the stream must have ended; no limit */
};

/* What came in. */
struct image_stats {
	uint64_t bytes, entries;
	uint64_t left_out; /* device nodes, fifos */
};

/* What is known of an image beside its files. Strings are borrowed. */
struct image_meta {
	const char *source;        /* "tar:FILE", "docker://host/name:tag", "recipe:base" */
	const char *source_digest; /* "sha256:..." of the manifest it was made from; NULL = none */
	const char *user, *workdir, *arch; /* NULL = not given */
	struct strv env, cmd;
	struct strv packages; /* NAME=VERSION */
};

struct image_new; /* taken in, not yet in the store */
typedef void (*image_progress)(void *arg, uint64_t bytes, uint64_t entries);

/*
 * Take a tar stream in: read tar_fd to its end, check, unpack into the store's tmp, make the digest. Blocks. fn
 * may be NULL; it is called now and then. ERR_INVALID when the stream is refused: the message names the
 * entry; -ENODATA when the stream ended too early. The result is dropped by image_new_free or kept by image_commit.
 */
int must_check image_take_in(int tar_fd, const struct image_limits *lim, image_progress fn, void *arg,
			     struct image_new **ret, struct err *e);
const struct image_stats *image_new_stats(const struct image_new *n);
/* Give it its place, and a name when name is not NULL ("name[:tag]"). digest: of what is now in the store. An
 * image that is there already is kept and gets the name too. */
int must_check image_commit(struct image_new *n, const struct image_meta *m, const char *name,
			    char digest[IMAGE_DIGEST_LEN + 1], struct err *e);
void image_new_free(struct image_new *n); /* accepts NULL */

/* An image of the store, locked: it is not removed while this is held. */
struct image_found {
	char digest[IMAGE_DIGEST_LEN + 1];
	char dir[IMAGE_PATH_MAX];  /* its folder in the store */
	char tree[IMAGE_PATH_MAX]; /* its root filesystem */
	int lock_fd;               /* shared lock; whoever keeps a copy of it keeps the image */
};
/* ref: "name[:tag]", "sha256:<64 digits>" or an unambiguous beginning of at least 12. ERR_NOT_FOUND. */
int must_check image_resolve(const char *ref, struct image_found *ret, struct err *e);
void image_found_done(struct image_found *f);

/*
 * When s->image is the name or digest of a stored image: find it, hold it, and fill in what the caller left open
 * (user, working folder, environment). Does nothing for 'host' and for folders.
 */
int must_check image_use(struct spec *s, struct err *e);

/* True when text is the name of a stored image rather than 'host' or a path ("/...", "./...", "../..."). */
bool image_is_ref(const char *text);
/* Check "name[:tag]" and split it; the tag of a name without is "latest". name: lower-case words of a-z 0-9,
 * joined by . _ - and /; tag: A-Z a-z 0-9 . _ -, not starting with . or -. */
int must_check image_parse_name(const char *text, char name[IMAGE_NAME_MAX + 1],
				char tag[IMAGE_NAME_MAX + 1], struct err *e);

/* Read back what image_commit wrote. Strings are owned by the info. */
struct image_info {
	char *source, *source_digest, *user, *workdir, *arch;
	struct strv env, cmd;
	uint64_t bytes, entries, left_out, created; /* created: seconds since the epoch */
	uint64_t erofs; /* bytes of its EROFS file; 0 = none */
	bool one_owner; /* made by an ordinary user: everything belongs to one id */
};
int must_check image_info_read(const struct image_found *f, struct image_info *ret, struct err *e);
void image_info_done(struct image_info *i);

int must_check image_tag(const char *digest, const char *name, struct err *e);
/* Every name (digest, "name:tag"), then every image without one (name NULL). fn returns false to stop. */
typedef bool (*image_each)(void *arg, const char *digest, const char *name);
int must_check image_list(image_each fn, void *arg, struct err *e);
/* Take a name away; the image goes with its last name. A digest takes all its names and the image. ERR_CONFLICT
 * while something runs on it. */
int must_check image_remove(const char *ref, struct err *e);
/* Remove images without a name that nothing runs on, and what dead builders left. Returns how many images. */
int must_check image_gc(struct err *e);
/* Make the digest of the stored tree again and compare, and the sum of its EROFS file, when it has one. ERR_INVALID
 * when one differs. */
int must_check image_verify(const struct image_found *f, struct err *e);
/* The same image as one EROFS file: uncompressed, blocks of 4 KiB. */
struct image_erofs {
	char path[IMAGE_PATH_MAX + 16];
	uint64_t size;
};
/* 1 = it is there, 0 = not yet, -errno = it is damaged. */
int must_check image_erofs_find(const struct image_found *f, struct image_erofs *ret, struct err *e);
/* Take the file from a pipe (hostile: whoever made it has read a hostile tree), check it, and put it beside the tree by
 * one rename, in the place of one that is there. from: read to its end. -ENODATA when
 * it ended too early. */
int must_check image_erofs_take(const struct image_found *f, int from, struct image_erofs *ret, struct err *e);
