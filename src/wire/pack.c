#include "wire/pack.h"

#include "base/num.h"

#include <errno.h>

/*
 * Theory of operation. The decoder is fed by whoever packed the tree: a sandbox (hostile), or a
 * host's brig as the agent sees it. It buffers at most PACK_BUF_MAX bytes, which holds the largest
 * entry; data is handed out as it arrives, never collected. Each length is checked when its header
 * is read, before anything waits for or copies the bytes it announces.
 *
 *      START -> ENTRY -> (file) CHUNK <-> DATA, HOLE -> ENTRY ... -> END
 *                        any broken rule -> BAD, which is final
 *
 * Not done here: whether a path's parent was packed, whether names repeat, whether a link's target
 * is harmless, and how much all files are together. Those are the unpacker's to decide.
 */

static const char magic[8] = "BRGPACK1";

enum { ENTRY_HDR = 32, CHUNK_HDR = 4, HOLE_HDR = 12 };
enum { PACK_NAME_MAX = 255 }; /* bytes of one path component, as NAME_MAX */

enum pack_state { ST_START, ST_ENTRY, ST_CHUNK, ST_DATA, ST_END, ST_BAD };

bool pack_path_ok(const char *path, size_t len)
{
	size_t start = 0, depth = 0;

	if (len == 0)
		return true;
	if (len > PACK_PATH_MAX || memchr(path, '\0', len) != NULL)
		return false;
	for (size_t i = 0; i <= len; i++) {
		size_t n = i - start;

		if (i < len && path[i] != '/')
			continue;
		if (n == 0 || n > PACK_NAME_MAX || (n == 1 && path[start] == '.') ||
		    (n == 2 && path[start] == '.' && path[start + 1] == '.'))
			return false;
		if (++depth > PACK_DEPTH_MAX)
			return false;
		start = i + 1;
	}
	return true;
}

bool pack_link_ok(const char *path, const char *target)
{
	size_t up = 0, depth = 0;
	bool down = false;

	if (target[0] == '\0' || target[0] == '/' || path[0] == '\0')
		return false;
	for (const char *p = path; *p != '\0'; p++)
		depth += *p == '/';
	for (const char *p = target; *p != '\0';) {
		size_t n = strcspn(p, "/");

		if (n == 2 && p[0] == '.' && p[1] == '.') {
			if (down || ++up > depth)
				return false;
		} else if (n > 0 && !(n == 1 && p[0] == '.')) {
			down = true;
		}
		p += n;
		p += strspn(p, "/");
	}
	return true;
}

void pack_decoder_init(struct pack_decoder *d)
{
	*d = (struct pack_decoder){.state = ST_START};
	buf_init(&d->in, PACK_BUF_MAX);
}

void pack_decoder_done(struct pack_decoder *d) { buf_done(&d->in); }

int pack_feed(struct pack_decoder *d, const void *p, size_t n) { return buf_put(&d->in, p, n); }

/* PACK_EV_MORE, PACK_EV_ENTRY, PACK_EV_END or -EPROTO. */
static int next_entry(struct pack_decoder *d)
{
	struct pack_entry *e = &d->entry;
	const uint8_t *h = buf_head(&d->in);
	uint32_t path_len, target_len;
	uint64_t size, mtime;
	uint16_t mode;

	if (d->in.len < ENTRY_HDR)
		return PACK_EV_MORE;
	mode = load_le16(h + 2);
	path_len = load_le32(h + 4);
	target_len = load_le32(h + 8);
	size = load_le64(h + 16);
	mtime = load_le64(h + 24);
	if (h[0] > PACK_LINK || h[1] != 0 || load_le32(h + 12) != 0)
		return -EPROTO;
	if ((mode & ~0777) != 0 || path_len > PACK_PATH_MAX || target_len > PACK_TARGET_MAX ||
	    size > INT64_MAX || mtime > INT64_MAX)
		return -EPROTO;
	if ((target_len > 0) != (h[0] == PACK_LINK) || (size > 0 && h[0] != PACK_FILE))
		return -EPROTO;
	if (h[0] == PACK_END) {
		if (mode != 0 || path_len != 0 || mtime != 0)
			return -EPROTO;
		buf_consume(&d->in, ENTRY_HDR);
		d->state = ST_END;
		return PACK_EV_END;
	}
	if (d->in.len < ENTRY_HDR + path_len + target_len)
		return PACK_EV_MORE;

	*e = (struct pack_entry){
	    .type = (enum pack_type)h[0], .mode = mode, .size = size, .mtime_ns = mtime};
	memcpy(e->path, h + ENTRY_HDR, path_len);
	memcpy(e->target, h + ENTRY_HDR + path_len, target_len);
	if (!pack_path_ok(e->path, path_len) || memchr(e->target, '\0', target_len) != NULL)
		return -EPROTO;
	buf_consume(&d->in, ENTRY_HDR + path_len + target_len);
	d->size_left = size;
	if (e->type == PACK_FILE)
		d->state = ST_CHUNK;
	return PACK_EV_ENTRY;
}

/* The header of a chunk. PACK_EV_HOLE and PACK_EV_FILE_END are complete with it; 0 with ST_DATA set
 * means that data follows, 0 without that more input is needed. */
static int next_chunk(struct pack_decoder *d, uint64_t *ret_len)
{
	const uint8_t *h = buf_head(&d->in);
	uint32_t len;

	if (d->in.len < CHUNK_HDR)
		return PACK_EV_MORE;
	len = load_le32(h);
	if (len == 0) {
		buf_consume(&d->in, CHUNK_HDR);
		d->state = ST_ENTRY;
		return PACK_EV_FILE_END;
	}
	if (len == PACK_HOLE) {
		uint64_t hole;

		if (d->in.len < HOLE_HDR)
			return PACK_EV_MORE;
		hole = load_le64(h + CHUNK_HDR);
		if (hole == 0 || hole > d->size_left)
			return -EPROTO;
		d->size_left -= hole;
		buf_consume(&d->in, HOLE_HDR);
		*ret_len = hole;
		return PACK_EV_HOLE;
	}
	if (len > PACK_CHUNK_MAX || len > d->size_left)
		return -EPROTO;
	d->size_left -= len;
	d->chunk_left = len;
	buf_consume(&d->in, CHUNK_HDR);
	d->state = ST_DATA;
	return PACK_EV_MORE;
}

static int step(struct pack_decoder *d, const uint8_t **ret_data, uint64_t *ret_len)
{
	int ev;

	switch ((enum pack_state)d->state) {
	case ST_START:
		if (d->in.len < sizeof(magic))
			return PACK_EV_MORE;
		if (memcmp(buf_head(&d->in), magic, sizeof(magic)) != 0)
			return -EPROTO;
		buf_consume(&d->in, sizeof(magic));
		d->state = ST_ENTRY;
		return next_entry(d);
	case ST_ENTRY:
		return next_entry(d);
	case ST_CHUNK:
		ev = next_chunk(d, ret_len);
		if (ev != PACK_EV_MORE || d->state != ST_DATA)
			return ev;
		__attribute__((fallthrough));
	case ST_DATA:
		if (d->in.len == 0)
			return PACK_EV_MORE;
		*ret_data = buf_head(&d->in);
		*ret_len = MIN(d->chunk_left, (uint64_t)d->in.len);
		/* Consuming moves an offset only: the bytes stay until the next feed. */
		buf_consume(&d->in, (size_t)*ret_len);
		d->chunk_left -= *ret_len;
		if (d->chunk_left == 0)
			d->state = ST_CHUNK;
		return PACK_EV_DATA;
	case ST_END:
		return d->in.len == 0 ? PACK_EV_MORE : -EPROTO;
	case ST_BAD:
		break;
	}
	return -EPROTO;
}

int pack_next(struct pack_decoder *d, const uint8_t **ret_data, uint64_t *ret_len)
{
	int ev;

	*ret_data = NULL;
	*ret_len = 0;
	ev = step(d, ret_data, ret_len);
	if (ev < 0)
		d->state = ST_BAD;
	return ev;
}

bool pack_complete(const struct pack_decoder *d) { return d->state == ST_END && d->in.len == 0; }

int pack_put_start(struct buf *b) { return buf_put(b, magic, sizeof(magic)); }

static int room_error(const struct buf *b, size_t n) { return buf_room(b) < n ? -ENOBUFS : -ENOMEM; }

int pack_put_entry(struct buf *b, const struct pack_entry *e)
{
	size_t path_len = strlen(e->path), target_len = strlen(e->target);
	size_t n = ENTRY_HDR + path_len + target_len;
	uint8_t *dst;

	if (e->type < PACK_DIR || e->type > PACK_LINK || (e->mode & ~0777) != 0 ||
	    e->size > INT64_MAX || e->mtime_ns > INT64_MAX ||
	    (target_len > 0) != (e->type == PACK_LINK) || (e->size > 0 && e->type != PACK_FILE) ||
	    !pack_path_ok(e->path, path_len))
		return -EINVAL;
	dst = buf_reserve(b, n);
	if (dst == NULL)
		return room_error(b, n);
	memset(dst, 0, ENTRY_HDR);
	dst[0] = (uint8_t)e->type;
	store_le16(dst + 2, e->mode);
	store_le32(dst + 4, (uint32_t)path_len);
	store_le32(dst + 8, (uint32_t)target_len);
	store_le64(dst + 16, e->size);
	store_le64(dst + 24, e->mtime_ns);
	memcpy(dst + ENTRY_HDR, e->path, path_len);
	memcpy(dst + ENTRY_HDR + path_len, e->target, target_len);
	buf_commit(b, n);
	return 0;
}

int pack_put_data(struct buf *b, const void *p, size_t n)
{
	uint8_t *dst;

	if (n == 0 || n > PACK_CHUNK_MAX)
		return -EINVAL;
	dst = buf_reserve(b, CHUNK_HDR + n);
	if (dst == NULL)
		return room_error(b, CHUNK_HDR + n);
	store_le32(dst, (uint32_t)n);
	memcpy(dst + CHUNK_HDR, p, n);
	buf_commit(b, CHUNK_HDR + n);
	return 0;
}

int pack_put_hole(struct buf *b, uint64_t n)
{
	uint8_t h[HOLE_HDR];

	if (n == 0 || n > INT64_MAX)
		return -EINVAL;
	store_le32(h, PACK_HOLE);
	store_le64(h + CHUNK_HDR, n);
	return buf_put(b, h, sizeof(h));
}

int pack_put_file_end(struct buf *b)
{
	static const uint8_t zero[CHUNK_HDR];

	return buf_put(b, zero, sizeof(zero));
}

int pack_put_end(struct buf *b)
{
	static const uint8_t zero[ENTRY_HDR];

	return buf_put(b, zero, sizeof(zero));
}
