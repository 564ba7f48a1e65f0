#include "cli/egress_log.h"

#include "base/num.h"
#include "cli/egress_verify.h"
#include "core/refused.h"
#include "sys/file.h"

#include <errno.h>
#include <jansson.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* The gate wrote the lines and escaped what came from inside; they are parsed strictly all the same. */

void egress_log_init(struct egress_log *l, int file_fd)
{
	memset(l, 0, offsetof(struct egress_log, seen)); /* of which there are n, none yet */
	l->file_fd = file_fd;
	buf_init(&l->line, EGRESS_LINE_MAX);
}

void egress_log_done(struct egress_log *l)
{
	for (uint32_t i = 0; i < l->n; i++)
		free(l->seen[i].where);
	l->n = 0;
	buf_done(&l->line);
}

static const char *text(const json_t *o, const char *key)
{
	const char *s = json_string_value(json_object_get(o, key));

	return s != NULL ? s : "";
}

/* A name as asked may hold any byte: only printable ones are shown. */
static char *where_of(const json_t *o)
{
	const char *name = text(o, "name");
	long long port = json_integer_value(json_object_get(o, "dst_port"));
	char *out = NULL;

	if (name[0] == '\0')
		name = text(o, "orig_dst");
	if ((port > 0 ? asprintf(&out, strchr(name, ':') != NULL ? "[%s]:%lld" : "%s:%lld", name, port)
		      : asprintf(&out, "%s", name)) < 0)
		return NULL;
	for (char *c = out; *c != '\0'; c++)
		if (*c <= 0x20 || *c >= 0x7f)
			*c = '?';
	return out;
}

static void remember(struct egress_log *l, const json_t *o, uint64_t times)
{
	char *where = where_of(o);
	struct egress_seen *s;

	l->denied += times;
	if (where == NULL)
		return;
	for (uint32_t i = 0; i < l->n; i++) {
		s = &l->seen[i];
		if (strcmp(s->where, where) == 0 && strcmp(s->reason, text(o, "reason")) == 0 &&
		    strcmp(s->transport, text(o, "transport")) == 0) {
			s->times += times;
			free(where);
			return;
		}
	}
	if (l->n == EGRESS_SEEN_MAX) {
		free(where);
		return; /* counted in `denied` */
	}
	s = &l->seen[l->n++];
	*s = (struct egress_seen){.where = where, .times = times};
	(void)snprintf(s->reason, sizeof(s->reason), "%s", text(o, "reason"));
	(void)snprintf(s->event, sizeof(s->event), "%s", text(o, "event"));
	(void)snprintf(s->transport, sizeof(s->transport), "%s", text(o, "transport"));
}

static void note_alert(struct egress_log *l, const json_t *o)
{
	char *where = where_of(o);

	(void)snprintf(l->alert, sizeof(l->alert), "%s%s%s: %s", text(o, "transport"), text(o, "transport")[0] != '\0' ? " " : "",
		       where != NULL ? where : "?", text(o, "reason"));
	free(where);
}

static void take_record(struct egress_log *l, const char *p, size_t n)
{
	json_t *o = json_loadb(p, n, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
	uint64_t refused;

	if (l->file_fd >= 0 && l->file_error == 0 && file_write_all(l->file_fd, p, n) < 0)
		l->file_error = errno;
	l->records++;
	if (n > 0)
		egress_line_hash(p, n - 1, l->head);
	if (o == NULL)
		return;
	l->lost += (uint64_t)MAX(json_integer_value(json_object_get(o, "lost")), (json_int_t)0);
	if (json_is_true(json_object_get(o, "alert")))
		note_alert(l, o);
	refused = refused_by_record(o);
	if (refused > 0) {
		remember(l, o, refused);
	} else if (strcmp(text(o, "event"), "connect") == 0) {
		l->allowed++;
	}
	json_decref(o);
}

/*
 * What a record is read into lives for a moment: it has a room of its own that is never given back. With the C library's
 * each record took pages and returned them, a dozen system calls that flush, on one of the processors that move the bytes.
 */
enum { ROOM = 64 * 1024, ROOM_ALIGN = 16 };
static _Alignas(ROOM_ALIGN) uint8_t room[ROOM]; /* of the one thread */
static size_t room_used;

static void *room_get(size_t n)
{
	size_t at = room_used;

	if (n > ROOM - at - ROOM_ALIGN)
		return malloc(n); /* a record of many parts */
	room_used = at + (n + ROOM_ALIGN - 1) / ROOM_ALIGN * ROOM_ALIGN;
	return room + at;
}

static void room_put(void *p)
{
	if ((uintptr_t)p < (uintptr_t)room || (uintptr_t)p >= (uintptr_t)room + ROOM)
		free(p);
}

static void take_line(struct egress_log *l, const char *p, size_t n)
{
	json_malloc_t usual_get;
	json_free_t usual_put;

	json_get_alloc_funcs(&usual_get, &usual_put);
	json_set_alloc_funcs(room_get, room_put);
	take_record(l, p, n);
	json_set_alloc_funcs(usual_get, usual_put);
	room_used = 0;
}

bool egress_log_read(struct egress_log *l, int fd)
{
	char chunk[4096];

	for (;;) {
		ssize_t n = read(fd, chunk, sizeof(chunk));
		const uint8_t *head, *nl;

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno == EAGAIN;
		if (n == 0)
			return false;
		if (buf_put(&l->line, chunk, (size_t)n) < 0)
			buf_consume(&l->line, l->line.len); /* no line of the gate's is so long */
		while (l->line.len > 0 && (head = buf_head(&l->line)) != NULL &&
		       (nl = memchr(head, '\n', l->line.len)) != NULL) {
			size_t len = (size_t)(nl - head) + 1;

			take_line(l, (const char *)head, len);
			buf_consume(&l->line, len);
		}
	}
}

void egress_log_drain(struct egress_log *l, int fd, int ms)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	while (egress_log_read(l, fd)) {
		int r = poll(&p, 1, ms);

		if (r == 0 || (r < 0 && errno != EINTR))
			return;
	}
}
