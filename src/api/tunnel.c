/*
 * A client that talks another protocol with a port inside (WebSocket): its request asked for it,
 * and the program answered with 101. From then on bytes go both ways as they come, over the call to
 * the keeper, and mean nothing to us.
 *
 * Each way holds at most one read and what ask.h holds; a side that does not read stops the other.
 * The client's end is the end of the call's body, the program's end is the connection's. MHD owns
 * the socket and looks at nothing any more: no limit of idleness holds here.
 */
#include "api/server_priv.h"

#include "base/cleanup.h"
#include "base/num.h"
#include "parse/http.h"
#include "sys/send.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

enum { PART = 16 * 1024, ROUNDS = 16 };

struct tunnel {
	struct source src; /* the client's end, MHD's to close */
	struct tunnel *next;
	struct request *q;
	struct MHD_UpgradeResponseHandle *handle;
	struct buf up, down;
	bool client_ended, told;
	bool again; /* something is left that no event will announce */
};

bool tunnel_asked(const struct request *q)
{
	const char *what = request_field(q, "Upgrade"), *how = request_field(q, "Connection");
	const char *length = request_field(q, "Content-Length");

	return what != NULL && how != NULL && strcmp(q->method, "GET") == 0 && *what != '\0' &&
	       strlen(what) <= HTTP_METHOD_MAX && http_token(what, strlen(what)) == strlen(what) &&
	       http_list_has(http_text(how), http_text("upgrade")) &&
	       (length == NULL || strcmp(length, "0") == 0) &&
	       request_field(q, "Transfer-Encoding") == NULL;
}

void tunnel_end(struct request *q)
{
	struct tunnel *t = q->tunnel, **p = &q->api->tunnels;

	if (t == NULL)
		return;
	q->tunnel = NULL;
	while (*p != t)
		p = &(*p)->next;
	*p = t->next;
	loop_unwatch(&q->d->loop, &t->src);
	t->src.fd = -1; /* an event of this turn may be on its way to it */
	ask_drop(q->ask); /* cut, unless it was through */
	q->ask = NULL;
	(void)MHD_upgrade_action(t->handle, MHD_UPGRADE_ACTION_CLOSE);
	buf_done(&t->up);
	buf_done(&t->down);
	loop_free_later(&q->d->loop, t);
}

void tunnel_end_all(struct api *a)
{
	while (a->tunnels != NULL)
		tunnel_end(a->tunnels->q);
}

/* From the client to the keeper: 1 something moved, 0 not now, -1 it is over. */
static int upwards(struct tunnel *t)
{
	struct ask *a = t->q->ask;
	ssize_t n;

	if (t->up.len == 0 && !t->client_ended) {
		uint8_t *p = buf_reserve(&t->up, PART);

		if (p == NULL)
			return -1;
		n = recv(t->src.fd, p, PART, MSG_DONTWAIT);
		if (n < 0)
			return errno == EAGAIN || errno == EINTR ? 0 : -1;
		buf_commit(&t->up, (size_t)n);
		t->client_ended = n == 0;
	}
	if (t->up.len == 0) {
		if (t->told)
			return 0;
		t->told = true;
		return ask_put_end(a) < 0 ? -1 : 1;
	}
	n = ask_put(a, buf_head(&t->up), t->up.len);
	if (n <= 0)
		return (int)n;
	buf_consume(&t->up, (size_t)n);
	t->q->d->stats.bytes_in += (uint64_t)n;
	return 1;
}

/* From the keeper to the client. */
static int downwards(struct tunnel *t)
{
	struct ask *a = t->q->ask;

	if (t->down.len == 0) {
		uint8_t *p = buf_reserve(&t->down, PART);
		size_t got = p != NULL ? ask_read(a, p, PART) : 0;

		if (p == NULL)
			return -1;
		buf_commit(&t->down, got);
		if (got == 0)
			return ask_look(a) == ASK_BODY ? 0 : -1; /* through, or cut */
		t->q->d->stats.bytes_out += got;
	}
	if (buf_send(&t->down, t->src.fd) < 0)
		return -1;
	return t->down.len == 0;
}

void tunnel_step(struct request *q)
{
	struct tunnel *t = q->tunnel;
	int up = 1, down = 1;

	for (int i = 0; i < ROUNDS && (up > 0 || down > 0); i++) {
		up = upwards(t);
		down = downwards(t);
		if (up < 0 || down < 0) {
			tunnel_end(q);
			return;
		}
	}
	t->again = up > 0 || down > 0;
	if (t->up.len == 0) /* an idle one holds nothing */
		buf_done(&t->up);
	if (t->down.len == 0)
		buf_done(&t->down);
}

bool tunnel_turn(struct api *a)
{
	bool ret = false;

	for (struct tunnel *t = a->tunnels, *next; t != NULL; t = next) {
		next = t->next;
		if (t->again)
			tunnel_step(t->q);
	}
	for (const struct tunnel *t = a->tunnels; t != NULL; t = t->next)
		ret |= t->again;
	return ret;
}

/* ---- begin ---- */

static void on_client(struct source *s, uint32_t events)
{
	struct tunnel *t = (struct tunnel *)s;

	if ((events & (EPOLLERR | EPOLLHUP)) != 0)
		tunnel_end(t->q);
	else
		tunnel_step(t->q);
}

static void on_upgrade(void *cls, struct MHD_Connection *conn, void *con_cls, const char *extra,
		       size_t extra_n, MHD_socket sock, struct MHD_UpgradeResponseHandle *handle)
{
	struct request *q = cls;
	struct tunnel *t = calloc(1, sizeof(*t));

	(void)conn;
	(void)con_cls;
	if (t != NULL) {
		*t = (struct tunnel){
		    .src = {.ready = on_client, .fd = sock}, .q = q, .handle = handle};
		buf_init(&t->up, SIZE_MAX / 2); /* what MHD had read already, then PART */
		buf_init(&t->down, PART);
	}
	request_unwatch(q);
	if (t == NULL || buf_put(&t->up, extra, extra_n) < 0 ||
	    loop_watch(&q->d->loop, &t->src) < 0) {
		if (t != NULL)
			buf_done(&t->up);
		free(t);
		(void)MHD_upgrade_action(handle, MHD_UPGRADE_ACTION_CLOSE);
		return;
	}
	t->again = true;
	t->next = q->api->tunnels;
	q->api->tunnels = t;
	q->tunnel = t;
}

struct MHD_Response *tunnel_response(struct request *q)
{
	return MHD_create_response_for_upgrade(on_upgrade, q);
}
