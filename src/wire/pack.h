#pragma once
/*
 * The pack stream: a tree of files as bytes, for copying in and out of a sandbox.
 *
 *      "BRGPACK1", then entries, then an END entry.
 *      entry: u8 type, u8 zero, u16 mode, u32 path length, u32 target length, u32 zero,
 *             u64 size, u64 mtime (ns), path, target, `size` bytes of data in chunks:
 *             u32 chunk length (1..PACK_CHUNK_MAX) + bytes, and a zero chunk length at the end
 *
 * Only folders, regular files and symbolic links exist; a folder comes before what is in it. Data
 * ends by its own zero chunk, so that a file that shrinks while it is read stays well framed; `size`
 * is what was announced, data and holes together never pass it (-EPROTO), so a reader can refuse a
 * file before its data comes. Holes are carried: a chunk length of exactly PACK_HOLE, then u64: that
 * many zero bytes without data. A writer stops reading a file at the size it announced.
 *
 * Paths are relative, of the form a/b/c: no empty, "." or ".." component, no leading or trailing
 * slash, no NUL, no component over 255 bytes; the root of what is packed, a folder or one single
 * file, is the empty path and comes first. pack_next checks the form of paths, so a path
 * that came out of it can be resolved beneath a folder (openat2(2), RESOLVE_BENEATH).
 * Both sides read hostile bytes with it.
 */
#include "base/buf.h"

#include <stdbool.h>
#include <stdint.h>

enum { PACK_PATH_MAX = 4095, PACK_TARGET_MAX = 4095, PACK_CHUNK_MAX = 1024 * 1024, PACK_DEPTH_MAX = 512 };
#define PACK_HOLE (UINT32_C(1) << 31)
/* What a decoder buffers. One pack_feed of PACK_FEED_MAX bytes always fits after the events were
 * drained to PACK_EV_MORE. */
enum { PACK_BUF_MAX = 256 * 1024, PACK_FEED_MAX = 128 * 1024 };

enum pack_type { PACK_END = 0, PACK_DIR = 1, PACK_FILE = 2, PACK_LINK = 3 };

struct pack_entry {
	enum pack_type type;
	uint16_t mode; /* permission bits, 0777; setuid, setgid and sticky are refused */
	uint64_t size; /* announced size of a file, bytes */
	uint64_t mtime_ns;
	char path[PACK_PATH_MAX + 1];
	char target[PACK_TARGET_MAX + 1]; /* PACK_LINK */
};

enum pack_event {
	PACK_EV_MORE = 0,  /* give more input */
	PACK_EV_ENTRY = 1, /* *entry is a new entry */
	PACK_EV_DATA = 2,  /* data, len: the next bytes of the file */
	PACK_EV_HOLE = 3,  /* len zero bytes of the file */
	PACK_EV_FILE_END = 4,
	PACK_EV_END = 5, /* the stream is complete; further input is an error */
};

struct pack_decoder {
	struct buf in;
	int state;
	uint64_t chunk_left;
	uint64_t size_left; /* what the current file may still bring, bytes */
	struct pack_entry entry;
};

void pack_decoder_init(struct pack_decoder *d);
void pack_decoder_done(struct pack_decoder *d);
/* Hand in bytes. 0, -ENOBUFS when the decoder's buffer is full (drain events first), -ENOMEM. */
int must_check pack_feed(struct pack_decoder *d, const void *p, size_t n);
/* The next event. DATA points into the decoder and is valid until the next call. -EPROTO. */
int pack_next(struct pack_decoder *d, const uint8_t **ret_data, uint64_t *ret_len);
/* True once the END entry was met and nothing followed it: what a reader checks at end of input. */
bool pack_complete(const struct pack_decoder *d);

/* Writing. 0, -ENOBUFS, -ENOMEM; -EINVAL for an entry that pack_next would refuse. */
int must_check pack_put_start(struct buf *b);
int must_check pack_put_entry(struct buf *b, const struct pack_entry *e);
int must_check pack_put_data(struct buf *b, const void *p, size_t n); /* n <= PACK_CHUNK_MAX, n > 0 */
int must_check pack_put_hole(struct buf *b, uint64_t n);
int must_check pack_put_file_end(struct buf *b);
int must_check pack_put_end(struct buf *b);
/* True for a path of the form above; the empty path counts as valid. */
bool pack_path_ok(const char *path, size_t len);
/* True when a link at `path` with this target cannot lead out of the packed folder: the target is
 * relative, ".." stands only at its beginning, and not more often than `path` has folders above it
 * (those are real folders, never links). Holds whatever other links of this kind there are. */
bool pack_link_ok(const char *path, const char *target);
