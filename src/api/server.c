/*
 * libmicrohttpd without threads, in the daemon's loop. Its clients are strangers: heads have a limit (the connection's memory),
 * bodies are taken as they come, and a connection on which nothing moves for two minutes is closed. One that waits for a
 * sandbox is suspended: it costs nothing then, and since the library does not look at it, we watch its socket for the client's
 * end.
 *
 * A request goes through: line (on_line), head (on_request, first call: decide), body (on_request with bytes), its end (on_request
 * without), answer, on_done. An answer decided early is sent when the body has come, since a client that still writes would
 * not read it.
 */
#include "api/server_priv.h"

#include "base/cleanup.h"
#include "base/num.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

enum {
	CONNECTION_MEMORY = 32 * 1024, /* head and buffers; MHD clears half of it, so an idle stream has that much */
	CONNECTION_SECONDS = 120,
	CROWD = 64, /* requests */
	DISCARD_MAX = 1024 * 1024, /* of a body nobody with a key sends */
};

const char *request_field(const struct request *q, const char *name)
{
	return MHD_lookup_connection_value(q->conn, MHD_HEADER_KIND, name);
}

/* ---- the answer ---- */

ssize_t answer_read(void *cls, uint64_t pos, char *dst, size_t n)
{
	struct request *q = cls;
	size_t some;

	(void)pos;
	if (q->gone || q->ask == NULL)
		return MHD_CONTENT_READER_END_WITH_ERROR;
	some = ask_read(q->ask, dst, n);
	q->d->stats.bytes_out += some;
	if (some > 0)
		return (ssize_t)some;
	switch (ask_look(q->ask)) {
	case ASK_DONE:
		return MHD_CONTENT_READER_END_OF_STREAM;
	case ASK_CUT:
		q->d->stats.requests_cut++;
		return MHD_CONTENT_READER_END_WITH_ERROR;
	case ASK_WAITS:
	case ASK_HEAD:
	case ASK_BODY:
		break;
	}
	request_suspend(q);
	return 0;
}

static enum MHD_Result answer(struct request *q)
{
	enum MHD_Result r;

	if (q->gone || q->cut) {
		q->d->stats.requests_cut++;
		return MHD_NO;
	}
	if (q->answer == NULL) {
		request_suspend(q);
		return MHD_YES;
	}
	r = MHD_queue_response(q->conn, q->status, q->answer);
	MHD_destroy_response(q->answer);
	q->answer = NULL;
	q->queued = true;
	q->d->stats.requests_refused += q->status >= 400 && q->status < 500;
	q->d->stats.requests_failed += q->status >= 500;
	return r;
}

/* ---- what MHD calls ---- */

static void *on_line(void *cls, const char *uri, struct MHD_Connection *conn)
{
	struct api *a = cls;
	struct request *q = calloc(1, sizeof(*q));

	if (q == NULL)
		return NULL;
	q->client.fd = -1;
	q->api = a;
	q->conn = conn;
	q->target = strdup(uri);
	buf_init(&q->body, REQUEST_BODY_MAX);
	a->requests++;
	a->most = MAX(a->most, a->requests);
	return q;
}

static bool authorised(struct request *q)
{
	const char *word = request_field(q, "X-API-KEY"), *bearer = request_field(q, "Authorization");
	struct err e = ERR_INIT;
	int r;

	if (q->route->scope == 0)
		return true;
	if (word == NULL && bearer != NULL && strncasecmp(bearer, "Bearer ", 7) == 0)
		word = bearer + 7;
	r = key_check(q->d->store, &q->d->seal, word != NULL ? word : "", daemon_now_ms(), &q->who, &e);
	if (r == 0 && (q->who.scopes & q->route->scope) != 0)
		return true;
	q->d->stats.auth_failed++;
	if (r == 0)
		reply_error(q, 403, "this key does not permit that");
	else if (r == -EACCES && word == NULL)
		reply_error(q, 401, "no API key: send it as X-API-KEY");
	else if (r == -EACCES)
		reply_error(q, 401, "invalid API key");
	else
		reply_error(q, 500, "%s", e.msg);
	q->unknown = r != 0;
	return false;
}

static void begin(struct request *q)
{
	unsigned status;

	q->d->stats.requests++;
	where_find(request_field(q, "E2b-Sandbox-Id"), request_field(q, "E2b-Sandbox-Port"), request_field(q, "Host"),
		   q->target, &q->where);
	if (q->where.kind == WHERE_BAD) {
		q->unknown = true;
		reply_error(q, 400, "%s", q->where.why);
	} else if (q->where.kind != WHERE_CONTROL) {
		proxy_begin(q);
	} else {
		q->route = route_find(q->method, q->target, q->word, &q->v2, &status);
		if (q->route == NULL) {
			q->unknown = true;
			reply_error(q, status, status == 404 ? "no such path" : "the path does not have this method");
		} else if (!authorised(q)) {
			q->route = NULL;
		}
	}
}

static size_t take_body(struct request *q, const char *p, size_t n)
{
	if (q->ask != NULL)
		return proxy_body(q, p, n);
	if (q->resuming)
		return 0;
	if (q->route != NULL && q->route->body && !q->too_big) {
		if (buf_put(&q->body, p, n) == 0)
			return n;
		buf_done(&q->body);
		q->too_big = true;
	}
	q->discarded += n;
	return n;
}

static enum MHD_Result on_request(void *cls, struct MHD_Connection *conn, const char *url, const char *method,
				  const char *version, const char *data, size_t *data_n, void **con_cls)
{
	struct api *a = cls;
	struct request *q = *con_cls;
	const char *fault;
	bool endless;
	size_t n;

	(void)url;
	if (q == NULL || q->target == NULL || q->gone)
		return MHD_NO;
	q->method = method;
	if (!q->begun) {
		q->begun = true;
		q->d = a->d;
		fault = framing_fault(conn, version, &endless);
		if (endless)
			return MHD_NO;
		if (fault != NULL) { /* answered before its body, which ends the connection */
			reply_error(q, 400, "%s", fault);
			reply_field(q, "Connection", "close");
			return answer(q);
		}
		begin(q);
		return MHD_YES;
	}
	if (*data_n > 0) {
		n = take_body(q, data, *data_n);
		*data_n -= n;
		if (q->unknown && q->discarded > DISCARD_MAX)
			return MHD_NO;
		if (n == 0)
			request_suspend(q);
		return MHD_YES;
	}
	if (!q->whole) {
		q->whole = true;
		if (q->route != NULL)
			route_run(q);
		else if (q->ask != NULL && !q->upgrade) /* then the end is the client's to say, in that protocol */
			proxy_body_end(q);
	}
	return answer(q);
}

/*
 * MHD reads once for each event, and a client's end that came together with its request brings no second one: the connection
 * would stay until its time is over. To be told again that it ended makes one. Requests that MHD has read are answered before.
 */
static void tell_end(struct MHD_Connection *conn)
{
	const union MHD_ConnectionInfo *i = MHD_get_connection_info(conn, MHD_CONNECTION_INFO_CONNECTION_FD);
	char c;

	if (i != NULL && recv(i->connect_fd, &c, 1, MSG_PEEK | MSG_DONTWAIT) == 0)
		(void)shutdown(i->connect_fd, SHUT_RD);
}

static void on_done(void *cls, struct MHD_Connection *conn, void **con_cls, enum MHD_RequestTerminationCode why)
{
	struct api *a = cls;
	struct request *q = *con_cls;

	*con_cls = NULL;
	if (q == NULL)
		return;
	if (why == MHD_REQUEST_TERMINATED_COMPLETED_OK && !q->upgrade)
		tell_end(conn);
	if (q->d != NULL) {
		life_forget(q->d, q);
		ask_json_forget(&q->d->asks, q);
		request_unwatch(q);
	}
	(void)request_unlist(q);
	begun_drop(q);
	tunnel_end(q);
	ask_drop(q->ask);
	if (q->answer != NULL)
		MHD_destroy_response(q->answer);
	buf_done(&q->body);
	json_decref(q->found);
	free(q->list);
	free(q->target);
	a->requests--;
	loop_free_later(&a->d->loop, q); /* its client's events may be in this turn */
}

static void on_log(void *cls, const char *fmt, va_list ap)
{
	(void)cls;
	(void)fmt; /* what clients do wrong is answered, not written down */
	(void)ap;
}

/* ---- opening ---- */

/* fd -1: connections are given to it. */
static struct MHD_Daemon *start(struct api *a, int fd)
{
	unsigned flags = MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_ALLOW_UPGRADE | (fd < 0 ? MHD_USE_NO_LISTEN_SOCKET : 0u);
	struct MHD_OptionItem listen[] = {{fd >= 0 ? MHD_OPTION_LISTEN_SOCKET : MHD_OPTION_END, fd, NULL}, {MHD_OPTION_END, 0, NULL}};

	return MHD_start_daemon(flags, 0, NULL, NULL, on_request, a, MHD_OPTION_URI_LOG_CALLBACK, on_line, a,
				MHD_OPTION_NOTIFY_COMPLETED, on_done, a,
				MHD_OPTION_EXTERNAL_LOGGER, on_log, NULL, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
				(size_t)CONNECTION_MEMORY, MHD_OPTION_CONNECTION_LIMIT, a->connections,
				MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)CONNECTION_SECONDS,
				MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_ARRAY, listen, MHD_OPTION_END);
}

static void take(void *cls, int fd, const struct sockaddr *addr, socklen_t n)
{
	const struct api *a = cls;

	(void)MHD_add_connection(a->mhd, fd, addr, n); /* it closes what it does not take */
}

static int open_server(struct api *a, int *fd, gnutls_certificate_credentials_t *cred, struct err *e)
{
	const union MHD_DaemonInfo *i;
	int r;

	a->mhd = start(a, *cred != NULL ? -1 : *fd);
	if (a->mhd == NULL)
		return err_set(e, ERR_INTERNAL, EIO, "start the HTTP server");
	if (*cred != NULL) {
		struct tls_setup s = {.cred = *cred, .connections = a->connections, .seconds = CONNECTION_SECONDS, .take = take, .cls = a};

		*cred = NULL;
		r = tls_front_open(&a->d->loop, steal_fd(fd), &s, &a->tls, e);
		if (r < 0)
			return r;
	}
	(void)steal_fd(fd); /* MHD's */
	i = MHD_get_daemon_info(a->mhd, MHD_DAEMON_INFO_EPOLL_FD);
	a->events = (struct source){.ready = server_events, .fd = i != NULL ? i->epoll_fd : -1};
	r = loop_watch(&a->d->loop, &a->events);
	return r < 0 ? err_set(e, ERR_INTERNAL, -r, "watch the HTTP server") : 0;
}

int api_open(struct daemon *d, struct api **ret, struct err *e)
{
	gnutls_certificate_credentials_t cred = NULL;
	struct api *a = calloc(1, sizeof(*a));
	_cleanup_close_ int fd = -1;
	int r;

	if (a == NULL)
		return err_no_memory(e);
	a->d = d;
	a->connections = listen_connections(d->config->tls_key != NULL);
	r = listen_open(d->config->listen, &fd, &a->port, e);
	if (r == 0)
		r = tls_open(d->config, &cred, e);
	if (r == 0)
		r = open_server(a, &fd, &cred, e);
	if (cred != NULL)
		gnutls_certificate_free_credentials(cred);
	if (r < 0) {
		api_close(a);
		return r;
	}
	*ret = a;
	return 0;
}

void server_events(struct source *s, uint32_t events)
{
	(void)s; /* api_turn follows in the same turn of the loop */
	(void)events;
}

uint16_t api_port(const struct api *a) { return a->port; }
uint32_t api_requests(const struct api *a) { return a->requests + tls_front_busy(a->tls); }

/* What a crowd took goes back to the system when the crowd has gone. */
static void give_back(struct api *a)
{
	if (a->most < CROWD || a->requests > a->most / 4)
		return;
	a->most = a->requests;
	(void)malloc_trim(0);
}

int api_turn(struct api *a)
{
	int tls_ms = tls_front_turn(a->tls);
	MHD_UNSIGNED_LONG_LONG ms;

	(void)MHD_run(a->mhd);
	begun_send(a);
	give_back(a);
	if (tunnel_turn(a))
		return 0;
	if (MHD_get_timeout(a->mhd, &ms) != MHD_YES)
		return tls_ms;
	ms = MIN(ms, 60000ULL);
	return tls_ms >= 0 && tls_ms < (int)ms ? tls_ms : (int)ms;
}

void api_quiesce(struct api *a)
{
	int fd = MHD_quiesce_daemon(a->mhd);

	if (fd >= 0)
		(void)close(fd);
	tls_front_quiesce(a->tls);
	tunnel_end_all(a); /* by themselves they would not end */
}

void api_close(struct api *a)
{
	if (a == NULL)
		return;
	tunnel_end_all(a);
	request_wake_all(a);
	if (a->mhd != NULL)
		MHD_stop_daemon(a->mhd);
	tls_front_close(a->tls);
	free(a);
}
