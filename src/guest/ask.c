#include "guest/ask.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Fed by the host, which the agent treats as hostile; msg_next has checked every length. Two passes:
 * the first checks the whole message and counts, the second (in the child that needs them) copies
 * the argument lists. */

static int put_field(struct ask *q, const struct msg_item *it)
{
	struct ask_str s = {.p = it->data, .n = it->len};

	switch ((int)it->field) {
	case F_KIND: q->kind = (enum req_kind)it->u64; break;
	case F_FLAGS: q->flags = (uint32_t)it->u64; break;
	case F_ARG:
		q->argc++;
		q->arg_bytes += it->len + 1;
		break;
	case F_ENV:
		q->envc++;
		q->env_bytes += it->len + 1;
		break;
	case F_CWD: q->cwd = s; break;
	case F_USER: q->user = s; break;
	case F_ROWS: q->rows = (uint16_t)it->u64; break;
	case F_COLS: q->cols = (uint16_t)it->u64; break;
	case F_PATH: q->path = s; break;
	case F_PATH2: q->path2 = s; break;
	case F_MODE: q->mode = it->u64; break;
	case F_OFFSET: q->offset = it->u64; break;
	case F_LENGTH: q->length = it->u64; break;
	case F_DEPTH: q->depth = it->u64; break;
	case F_PORT: q->port = (uint16_t)it->u64; break;
	case F_NSEC: q->nsec = it->u64; break;
	case F_ENTROPY: q->entropy = s; break;
	case F_UMASK: q->umask = it->u64; break;
	case F_XATTRS: q->xattrs = s; break;
	case F_EXPECT: q->expect = s; break;
	case F_XATTR: break; /* read by who writes them */
	default: return -EPROTO;
	}
	q->has |= UINT64_C(1) << it->field;
	return 0;
}

int ask_parse(const void *msg, size_t n, struct ask *ret)
{
	struct ask q = {.msg = msg, .msg_len = n};
	struct msg_reader r = msg_reader(msg, n);
	struct msg_item it;
	int got;

	while ((got = msg_next(&r, &it)) > 0) {
		if (put_field(&q, &it) < 0)
			return -EPROTO;
	}
	if (got < 0 || !ask_has(&q, F_KIND))
		return -EPROTO;
	*ret = q;
	return 0;
}

char **ask_args(const struct ask *q, enum msg_field f, uint32_t spare)
{
	size_t count = (f == F_ARG ? q->argc : q->envc) + (size_t)spare + 1;
	size_t bytes = f == F_ARG ? q->arg_bytes : q->env_bytes;
	struct msg_reader r = msg_reader(q->msg, q->msg_len);
	struct msg_item it;
	size_t i = 0;
	char **v, *s;

	v = malloc(count * sizeof(*v) + bytes);
	if (v == NULL)
		return NULL;
	s = (char *)(v + count);
	while (msg_next(&r, &it) > 0) {
		if (it.field != f)
			continue;
		memcpy(s, it.data, it.len);
		s[it.len] = '\0';
		v[i++] = s;
		s += it.len + 1;
	}
	v[i] = NULL;
	return v;
}

int ask_copy(const struct ask_str *s, char *dst, size_t size)
{
	if (s->p == NULL)
		return -EINVAL;
	if (s->n >= size)
		return -ENAMETOOLONG;
	memcpy(dst, s->p, s->n);
	dst[s->n] = '\0';
	return 0;
}

uint32_t ask_fds(const struct ask *q)
{
	uint32_t n = 0;

	if (q->kind != REQ_EXEC)
		return 0;
	if (q->flags & REQ_FD_STDIO)
		n += q->flags & REQ_STDIN ? 3 : 2;
	if (q->flags & REQ_FD_LEAF)
		n++;
	if (q->flags & REQ_FD_MEASURE)
		n += 2;
	return n;
}
