/* `brig image pull HOST/NAME`: skopeo in a sandbox whose gate lets it reach the registry and nothing else. TLS is
 * between skopeo and the registry; the gate only compares names. */
#include "base/num.h"
#include "base/quote.h"
#include "cli/cmd_image.h"
#include "cli/image_oci.h"
#include "cli/say.h"
#include "gate/judge.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define OPT_WANT_JSON
#define OPT_WANT_NAME
#define OPT_WANT_BOX
#define OPT_WANT_PULL
#include "cli/options_common.h"

enum { RULES_MAX = 16 * 1024, REFERENCE_MAX = 400 };

/* Registries that send their clients on: what belongs to them. */
static const struct {
	const char *host, *also;
} known[] = {
    {"docker.io", "allow registry-1.docker.io:443\nallow auth.docker.io:443\n"
		  "allow production.cloudflare.docker.com:443\nallow *.r2.cloudflarestorage.com:443\n"
		  "allow **.r2.cloudflarestorage.com:443\n"},
    {"ghcr.io", "allow ghcr.io:443\nallow pkg-containers.githubusercontent.com:443\n"},
    {"quay.io", "allow quay.io:443\nallow *.quay.io:443\n"},
};

struct pull {
	char host[264];      /* with its port, where one was given */
	char from[512];      /* docker://... */
	char rules[RULES_MAX];
	size_t rules_n;
};

static int add_rule(struct pull *p, const char *host, struct err *e)
{
	const char *colon = strrchr(host, ':');
	bool port = colon != NULL && strchr(colon, ']') == NULL;
	bool address = host[0] == '[' || host[strspn(host, "0123456789.:")] == '\0';
	int n = snprintf(p->rules + p->rules_n, RULES_MAX - p->rules_n, "%s %s%s\n", address ? "range" : "allow", host,
			 port ? "" : ":443");

	if (n < 0 || (size_t)n >= RULES_MAX - p->rules_n)
		return err_set(e, ERR_LIMITED, E2BIG, "too many hosts");
	p->rules_n += (size_t)n;
	return 0;
}

/* The first word is a host, as container tools tell: it has a point or a port. */
static int read_reference(const char *text, struct pull *p, struct err *e)
{
	static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789./:@_-[]";
	const char *s = strncmp(text, "docker://", 9) == 0 ? text + 9 : text, *slash = strchr(s, '/');
	char q[QUOTE_MAX];
	size_t n;

	if (strlen(s) > REFERENCE_MAX || s[strspn(s, allowed)] != '\0' || slash == NULL || slash[1] == '\0')
		return err_set(e, ERR_INVALID, EINVAL, "%s: HOST[:PORT]/NAME[:TAG|@sha256:DIGEST] is needed", quote(text, q));
	n = (size_t)(slash - s);
	if (n >= sizeof(p->host) || memchr(s, '@', n) != NULL || (memchr(s, '.', n) == NULL && memchr(s, ':', n) == NULL))
		return err_set(e, ERR_INVALID, EINVAL, "%s: the registry's host comes first: docker.io/library/debian",
			       quote(text, q));
	memcpy(p->host, s, n);
	p->host[n] = '\0';
	(void)snprintf(p->from, sizeof(p->from), "docker://%s", s);
	for (size_t i = 0; i < ARRAY_LEN(known); i++)
		if (strcmp(known[i].host, p->host) == 0) {
			p->rules_n = (size_t)snprintf(p->rules, RULES_MAX, "%s", known[i].also);
			return 0;
		}
	return add_rule(p, p->host, e);
}

static int check_rules(const struct pull *p, struct err *e)
{
	struct judge *j = NULL;
	int r = judge_new(p->rules, p->rules_n, &j, e);

	judge_free(j);
	return r;
}

static int pull_run(int argc, char **argv)
{
	struct opt_parser p = opt_parser(opts, ARRAY_LEN(opts), argv);
	static struct pull pull;
	const struct image_limits in = {.bytes = 0};
	struct image_oci oci = {.lim = &in, .tls_verify = "true", .auth_inside = ""};
	struct image_box b = {.script = NULL};
	char base[IMAGE_NAME_MAX + 1], tag[IMAGE_NAME_MAX + 1];
	const char *value = NULL;
	const struct opt *o = NULL;
	struct strv allow = {.v = NULL};
	struct err e = ERR_INIT;
	int r;

	while ((r = opt_next(&p, &o, &value, &e)) > 0) {
		oci.json = oci.json || o->id == O_JSON;
		oci.quiet = oci.quiet || o->id == O_QUIET;
		if (o->id == O_INSECURE)
			oci.tls_verify = "false";
		if (o->id == O_NAME)
			oci.name = value;
		if (o->id == O_AUTHFILE) {
			b.copy[0].from = value;
			b.copy[0].inside = oci.auth_inside = "/tmp/auth.json";
		}
		if (o->id == O_ALLOW && strv_add(&allow, value) < 0 && (r = err_set(&e, ERR_INTERNAL, ENOMEM, "out of memory")) < 0)
			break;
		if ((o->id == O_MEMORY || o->id == O_DISK || o->id == O_TIMEOUT) &&
		    (r = image_box_limit(&b.lim, o->name, value, &e)) < 0)
			break;
	}
	if (r == 0 && argc - p.at != 1)
		r = err_set(&e, ERR_INVALID, EINVAL, "one image of a registry is needed");
	if (r == 0)
		r = read_reference(argv[p.at], &pull, &e);
	for (uint32_t i = 0; r == 0 && i < allow.n; i++)
		r = add_rule(&pull, allow.v[i], &e);
	strv_done(&allow);
	if (r == 0)
		r = check_rules(&pull, &e);
	if (r == 0 && oci.name != NULL)
		r = image_parse_name(oci.name, base, tag, &e);
	if (r < 0)
		return image_usage("pull", &e);
	oci.from = oci.source = pull.from;
	b.egress = pull.rules;
	return image_oci_take(&b, &oci, &e) < 0 ? say_err(&e) : 0;
}

const struct command_impl image_command_pull = {
    .run = pull_run,
    .opts = opts,
    .nopts = ARRAY_LEN(opts),
    .notes = "The tools can reach the registry and the hosts of --allow, nothing else. With @sha256:DIGEST\n"
	     "the image is exactly that one. Loopback addresses are never reached.\n"
	     "  brig image pull --name debian docker.io/library/debian:12\n",
    .words = "",
};
