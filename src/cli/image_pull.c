/* `brig image pull HOST/NAME`: skopeo in a sandbox whose gate lets it reach the registry and
 * nothing else. TLS is between skopeo and the registry; the gate only compares names. */
#include "base/num.h"
#include "base/quote.h"
#include "cli/image_asked.h"
#include "cli/image_local.h"
#include "cli/image_oci.h"
#include "cli/image_proxy.h"
#include "cmd/say.h"
#include "gate/judge.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define OPT_WANT_JSON
#define OPT_WANT_NAME
#define OPT_WANT_BOX
#define OPT_WANT_LIMITS
#define OPT_WANT_PULL
#include "cli/options_common.h"

enum { RULES_MAX = 16 * 1024, REFERENCE_MAX = 400 };

/* Registries that send their clients on: what belongs to them. */
static const struct {
	const char *host, *also;
} known[] = {
    {"docker.io",
     "allow registry-1.docker.io:443\nallow auth.docker.io:443\n"
     "allow production.cloudflare.docker.com:443\nallow *.r2.cloudflarestorage.com:443\n"
     "allow **.r2.cloudflarestorage.com:443\n"},
    {"ghcr.io", "allow ghcr.io:443\nallow pkg-containers.githubusercontent.com:443\n"},
    {"quay.io", "allow quay.io:443\nallow *.quay.io:443\n"},
};

struct pull {
	char host[264];	      /* with its port, where one was given */
	char source[512];     /* docker://..., as a person means it */
	const char *digest;   /* the 64 digits in it; NULL = the tag's */
	char from[512];	      /* the same as the tools in the sandbox are to name it */
	char repository[512]; /* and that without tag and digest */
	char rules[RULES_MAX];
	size_t rules_n;
	struct image_local local; /* --local */
};

static int add_rule(struct pull *p, const char *host, struct err *e)
{
	const char *colon = strrchr(host, ':');
	bool port = colon != NULL && strchr(colon, ']') == NULL;
	bool address = host[0] == '[' || host[strspn(host, "0123456789.:")] == '\0';
	int n = snprintf(p->rules + p->rules_n, RULES_MAX - p->rules_n, "%s %s%s\n",
			 address ? "range" : "allow", host, port ? "" : ":443");

	if (n < 0 || (size_t)n >= RULES_MAX - p->rules_n)
		return err_set(e, ERR_LIMITED, E2BIG, "too many hosts");
	p->rules_n += (size_t)n;
	return 0;
}

/* The first word is a host, as container tools tell: it has a point or a port; with --local it may
 * be any. */
static int read_reference(const char *text, bool local, struct pull *p, struct err *e)
{
	static const char allowed[] =
	    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789./:@_-[]";
	const char *s = strncmp(text, "docker://", 9) == 0 ? text + 9 : text,
		   *slash = strchr(s, '/');
	char q[QUOTE_MAX];
	size_t n;

	if (strlen(s) > REFERENCE_MAX || s[strspn(s, allowed)] != '\0' || slash == NULL ||
	    slash[1] == '\0')
		return err_set(e, ERR_INVALID, EINVAL,
			       "%s: HOST[:PORT]/NAME[:TAG|@sha256:DIGEST] is needed",
			       quote(text, q));
	n = (size_t)(slash - s);
	if (n == 0 || n >= sizeof(p->host) || memchr(s, '@', n) != NULL ||
	    (!local && memchr(s, '.', n) == NULL && memchr(s, ':', n) == NULL))
		return err_set(e, ERR_INVALID, EINVAL,
			       "%s: the registry's host comes first: docker.io/library/debian",
			       quote(text, q));
	memcpy(p->host, s, n);
	p->host[n] = '\0';
	(void)snprintf(p->source, sizeof(p->source), "docker://%s", s);
	p->digest = strchr(p->source, '@');
	if (p->digest == NULL)
		return 0;
	if (strncmp(p->digest, "@sha256:", 8) != 0 ||
	    strspn(p->digest + 8, "0123456789abcdef") != IMAGE_DIGEST_LEN ||
	    p->digest[8 + IMAGE_DIGEST_LEN] != '\0')
		return err_set(e, ERR_INVALID, EINVAL,
			       "%s: @sha256: and 64 lower-case hexadecimal digits are needed",
			       quote(text, q));
	p->digest += 8;
	return 0;
}

/* Which names the tools are to use, and what they may reach. */
static int plan(struct pull *p, bool local, struct err *e)
{
	const char *name = strchr(p->source + 9, '/') + 1, *host = p->host;
	size_t n;
	int r = 0;

	if (local) {
		r = image_local_find(p->host, &p->local, e);
		if (r < 0)
			return r;
		host = p->local.host;
	}
	n = strcspn(name, "@");
	(void)snprintf(p->from, sizeof(p->from), "docker://%s/%.*s%s", host,
		       (int)(name[n] == '@' ? strcspn(name, ":@") : n), name, name + n);
	(void)snprintf(p->repository, sizeof(p->repository), "docker://%s/%.*s", host,
		       (int)strcspn(name, ":@"), name);
	if (!local && host[0] != '[' && memchr(host, '.', strcspn(host, ":")) == NULL)
		return err_set(
		    e, ERR_INVALID, EINVAL,
		    "its registry is on this machine or in a private network: add --local");
	if (local) {
		p->rules_n = (size_t)snprintf(p->rules, RULES_MAX, "%s", p->local.rule);
		return 0;
	}
	for (size_t i = 0; i < ARRAY_LEN(known); i++)
		if (strcmp(known[i].host, p->host) == 0) {
			p->rules_n = (size_t)snprintf(p->rules, RULES_MAX, "%s", known[i].also);
			return 0;
		}
	return add_rule(p, p->host, e);
}

/* What only this command is asked for. */
struct own {
	const char *authfile, *ca, *tls_verify;
	const char *proxy, *proxy_credentials;
	struct strv allow;
	bool local;
};

static int check_own(const struct own *own, struct err *e)
{
	if (own->proxy == NULL && own->proxy_credentials != NULL)
		return err_set(e, ERR_INVALID, EINVAL, "--proxy-credentials: of which --proxy?");
	if (own->proxy != NULL && own->local)
		return err_set(e, ERR_INVALID, EINVAL,
			       "--local reaches one address itself, --proxy everything through another: "
			       "give one of them");
	return 0;
}

/* Everything goes out through it. */
static int add_proxy(struct pull *p, const struct own *own, struct err *e)
{
	char lines[IMAGE_PROXY_TEXT];
	int r;

	if (own->proxy == NULL)
		return 0;
	r = image_proxy_rules(own->proxy, own->proxy_credentials, lines, e);
	if (r == 0 && strlen(lines) >= RULES_MAX - p->rules_n)
		return err_set(e, ERR_LIMITED, E2BIG, "too many hosts");
	if (r == 0)
		p->rules_n += (size_t)snprintf(p->rules + p->rules_n, RULES_MAX - p->rules_n, "%s", lines);
	return r;
}

static int check_rules(const struct pull *p, struct err *e)
{
	struct judge *j = NULL;
	int r = judge_new(p->rules, p->rules_n, &j, e);

	judge_free(j);
	return r;
}

static void copy_in(struct image_box *b, const char *from, const char *inside)
{
	size_t i = b->copy[0].from == NULL ? 0 : 1;

	b->copy[i].from = from;
	b->copy[i].inside = inside;
}

static int pull(struct pull *p, const struct image_asked *a, const struct own *own, struct err *e)
{
	char base[IMAGE_NAME_MAX + 1], tag[IMAGE_NAME_MAX + 1];
	struct image_box b = {.script = NULL, .lim = a->lim, .progress = a->show};
	struct image_oci o = {.tls_verify = own->tls_verify,
			      .tool = "",
			      .keep = &a->keep,
			      .auth_inside = own->authfile != NULL ? "/tmp/auth.json" : "",
			      .certs_inside = own->ca != NULL ? "/tmp/certs" : ""};
	int r = a->keep.name == NULL ? 0 : image_parse_name(a->keep.name, base, tag, e);

	if (r == 0)
		r = check_own(own, e);
	if (r == 0)
		r = plan(p, own->local, e);
	for (uint32_t i = 0; r == 0 && i < own->allow.n; i++)
		r = add_rule(p, own->allow.v[i], e);
	if (r == 0)
		r = add_proxy(p, own, e);
	if (r == 0)
		r = check_rules(p, e);
	if (r < 0)
		return err_wrap(e, r, "%s", a->what);
	if (own->authfile != NULL)
		copy_in(&b, own->authfile, o.auth_inside);
	if (own->ca != NULL)
		copy_in(&b, own->ca, "/tmp/certs/ca.crt");
	o.source = p->source;
	o.from = p->from;
	o.digest = p->digest;
	o.repository = p->repository;
	b.egress = p->rules;
	b.egress_local = own->local;
	b.hosts = &p->local.hosts;
	return image_oci_take(&b, &o, e);
}

static int option(void *arg, const struct opt *o, const char *value, struct err *e)
{
	struct own *own = arg;

	if (o->id == O_LOCAL)
		own->local = true;
	else if (o->id == O_INSECURE)
		own->tls_verify = "false";
	else if (o->id == O_AUTHFILE)
		own->authfile = value;
	else if (o->id == O_CA)
		own->ca = value;
	else if (o->id == O_PROXY)
		own->proxy = value;
	else if (o->id == O_PROXY_CREDENTIALS)
		own->proxy_credentials = value;
	else if (o->id != O_ALLOW)
		return 0;
	else if (strv_add(&own->allow, value) < 0)
		return err_no_memory(e);
	return 1;
}

static int pull_run(int argc, char **argv)
{
	static struct pull what;
	struct own own = {.tls_verify = "true"};
	struct image_asked a;
	struct err e = ERR_INIT;
	int r;

	(void)argc;
	r = image_asked(&a, &image_command_pull, argv, option, &own,
			"one image of a registry is needed", &e);
	if (r == 0)
		r = read_reference(a.what, own.local, &what, &e);
	if (r < 0) {
		strv_done(&own.allow);
		return image_usage("pull", &e);
	}
	r = pull(&what, &a, &own, &e);
	strv_done(&own.allow);
	image_local_done(&what.local);
	return r < 0 ? say_err(&e) : 0;
}

const struct command_impl image_command_pull = {
    .run = pull_run,
    .opts = opts,
    .nopts = ARRAY_LEN(opts),
    .notes = "The tools can reach the registry and the hosts of --allow, nothing else. With "
	     "@sha256:DIGEST\n"
	     "the image is exactly that one. Without --local no loopback or private address is "
	     "reached.\n"
	     "  brig image pull --name debian docker.io/library/debian:12\n",
    .words = "",
};
