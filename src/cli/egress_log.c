#include "cli/egress_log.h"

#include "base/num.h"
#include "cli/egress_verify.h"
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
	*l = (struct egress_log){.file_fd = file_fd};
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

static void remember(struct egress_log *l, const json_t *o)
{
	long long suppressed = json_integer_value(json_object_get(o, "suppressed"));
	uint64_t times = suppressed > 0 ? (uint64_t)suppressed : 1; /* a record of those only counted, or one of its own */
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

static void take_line(struct egress_log *l, const char *p, size_t n)
{
	json_t *o = json_loadb(p, n, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);

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
	if (strcmp(text(o, "event"), "policy") == 0) {
		/* nothing the sandbox did */
	} else if (strcmp(text(o, "verdict"), "deny") == 0) {
		remember(l, o);
	} else if (strcmp(text(o, "event"), "connect") == 0) {
		l->allowed++;
	}
	json_decref(o);
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
