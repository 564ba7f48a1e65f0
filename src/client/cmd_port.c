/* `brig port ID PORT`: where a port of a sandbox is reached. */
#include "base/num.h"
#include "base/quote.h"
#include "base/units.h"
#include "client/client.h"
#include "client/forward.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OPT_WANT_FORWARD
#define OPT_WANT_JSON
#include "client/options.h"

struct port {
	const char *forward;
	bool json;
	uint64_t nr;
};

static int take(void *arg, int id, const char *value, struct err *e)
{
	struct port *p = arg;

	(void)e;
	if (id == O_FORWARD)
		p->forward = value;
	p->json = p->json || id == O_JSON;
	return 0;
}

/* The port of "http://host:port", or NULL. */
static const char *port_of(const char *url)
{
	const char *host = strstr(url, "://") + 3, *end = host + strcspn(host, "/"), *colon = NULL;

	for (const char *s = host; s < end; s++)
		colon = *s == ':' ? s : *s == ']' ? NULL : colon;
	return colon;
}

/* The name the daemon has (its `domain`), which leads to it if the names below it do. */
static int url_of(const struct client *c, const struct box_ref *b, unsigned nr, char *dst,
		  size_t size, struct err *e)
{
	const char *port = port_of(c->where.url);
	int n = port != NULL ? (int)strcspn(port, "/") : 0;

	if (c->where.socket != NULL || b->domain[0] == '\0')
		return err_set(
		    e, ERR_UNSUPPORTED, EOPNOTSUPP,
		    "the daemon at %s has no name for its ports: --forward leads to them too",
		    c->where.shown);
	(void)snprintf(dst, size, "%s://%u-%s.%s%.*s", c->where.secure ? "https" : "http", nr,
		       b->id, b->domain, strchr(b->domain, ':') != NULL ? 0 : n,
		       port != NULL ? port : "");
	return 0;
}

static int print_url(const struct client *c, const struct port *p, const struct box_ref *b,
		     struct err *e)
{
	char url[512];
	int r = url_of(c, b, (unsigned)p->nr, url, sizeof(url), e);
	json_t *o;

	if (r < 0)
		return r;
	if (!p->json)
		return client_puts(url, e);
	o = json_pack("{s:s,s:s,s:I}", "url", url, "sandboxID", b->id, "port", (json_int_t)p->nr);
	if (o != NULL && b->traffic[0] != '\0')
		(void)json_object_set_new(o, "trafficAccessToken", json_string(b->traffic));
	return client_print(o, e);
}

static int port(struct client *c, struct port *p, char **argv, struct err *e)
{
	struct box_ref *b = calloc(1, sizeof(*b));
	char q[QUOTE_MAX];
	int r = b == NULL ? err_no_memory(e) : units_count(argv[2], 65535, &p->nr, e);

	if (r == 0 && p->nr == 0)
		r = err_set(e, ERR_INVALID, EINVAL, "%s: a port from 1 to 65535 is wanted",
			    quote(argv[2], q));
	else if (r < 0)
		r = err_wrap(e, r, "%s", quote(argv[2], q));
	if (r == 0)
		r = client_open(c, e);
	if (r == 0)
		r = api_find(c, argv[1], true, b, e);
	if (r == 0)
		r = p->forward != NULL ? forward_serve(c, b, (unsigned)p->nr, p->forward, e)
				       : print_url(c, p, b, e);
	free(b);
	return r;
}

static int port_run(int argc, char **argv)
{
	struct client c = {.http = {.multi = NULL}};
	struct port p = {.forward = NULL};
	struct err e = ERR_INIT;
	int r;

	(void)argc;
	r = client_options(&c, opts, ARRAY_LEN(opts), argv, -1, take, &p, &e);
	if (r >= 0)
		r = client_count(r, 2, 2, "a sandbox and a port are wanted: brig port ID 8000", &e);
	if (r >= 0)
		r = port(&c, &p, argv, &e);
	return client_end(&c, "port", r, &e);
}

const struct command_impl client_port = {
    .run = port_run,
    .opts = opts,
    .nopts = ARRAY_LEN(opts),
    .words = "SANDBOXES",
    .notes = "HTTP/1.1 and WebSocket: what else a port answers is not passed on.\n",
};
