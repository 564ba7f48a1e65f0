#include "receipt/envelope_priv.h"

#include "base/num.h"
#include "base/quote.h"
#include "core/profile.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <sodium.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * The payload: one line of JSON, keys sorted, no spaces, so that the same content has the same
 * bytes: those that jansson writes with JSON_COMPACT and JSON_SORT_KEYS, which verify.c insists on.
 * It is written here by hand, in that order, because building and sorting some five hundred objects
 * took longer than measuring what is in them.
 *
 * Texts of the report are printable and free of what JSON escapes (wire/probe.h); those of the
 * settings are the caller's, and one that is no UTF-8 is shown quoted. Values of environment
 * variables stay out: they may be confidential.
 */

enum { REST_MAX = 96 * 1024 }; /* more than all that is not the caller's can come to */

struct text {
	struct buf *b;
	int err; /* the first */
};

static void put(struct text *t, const char *s, size_t n)
{
	int r = t->err == 0 ? buf_put(t->b, s, n) : 0;

	if (r < 0)
		t->err = r;
}

static void out(struct text *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void out(struct text *t, const char *fmt, ...)
{
	char s[512];
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(s, sizeof(s), fmt, ap);
	va_end(ap);
	if (n < 0 || (size_t)n >= sizeof(s))
		t->err = -EMSGSIZE;
	else
		put(t, s, (size_t)n);
}

/* A text of the caller's, as jansson writes it. */
static void out_n(struct text *t, const char *s, size_t n)
{
	char q[QUOTE_MAX];
	json_t *j = json_stringn(s, n);
	char *made;

	if (j == NULL)
		j = json_string(quote_n(s, n, q));
	made = json_dumps(j, JSON_ENCODE_ANY | JSON_COMPACT);
	if (made == NULL)
		t->err = -ENOMEM;
	else
		put(t, made, strlen(made));
	free(made);
	json_decref(j);
}

static void out_text(struct text *t, const char *s)
{
	if (s == NULL) {
		out(t, "null");
		return;
	}
	out_n(t, s, strlen(s));
}

static void out_number(struct text *t, uint64_t v)
{
	if (v <= INT64_MAX)
		out(t, "%" PRIu64, v);
	else
		out(t, "\"unlimited\"");
}

/* What fits on a file system, which has 0 for no limit. */
static void out_room(struct text *t, uint64_t v) { out_number(t, v == 0 ? UINT64_MAX : v); }

static void out_limit(struct text *t, const struct receipt_limit *l)
{
	if (l->known)
		out_number(t, l->value);
	else
		out(t, "null");
}

/* The order of names[0..n) by their bytes. */
static void sort(const char *const *names, uint8_t n, uint8_t *order)
{
	for (uint8_t i = 0; i < n; i++) {
		uint8_t k = i;

		for (; k > 0 && strcmp(names[order[k - 1]], names[i]) > 0; k--)
			order[k] = order[k - 1];
		order[k] = i;
	}
}

/* {"NAME":VALUE,...} for a list of names; each is written by `value`. */
static void out_object(struct text *t, const char *const *names, uint8_t n,
		       void (*value)(struct text *t, const void *of, uint8_t i), const void *of)
{
	uint8_t order[UINT8_MAX];

	sort(names, n, order);
	for (uint8_t i = 0; i < n; i++) {
		out(t, "%c\"%s\":", i == 0 ? '{' : ',', names[order[i]]);
		value(t, of, order[i]);
	}
	out(t, "}");
}

static void put_call(struct text *t, const void *of, uint8_t i)
{
	out(t, "%u", ((const struct probe_task *)of)->call[i]);
}
static void put_cap(struct text *t, const void *of, uint8_t i)
{
	out(t, "\"%#" PRIx64 "\"", ((const struct probe_task *)of)->caps[i]);
}
static void put_ns(struct text *t, const void *of, uint8_t i)
{
	out_number(t, ((const struct probe_task *)of)->ns[i]);
}
static void put_reach(struct text *t, const void *of, uint8_t i)
{
	uint32_t r = ((const struct probe_world *)of)->reach[i];

	if (r == PROBE_UNTRIED)
		out(t, "null");
	else
		out(t, "%u", r);
}

static void put_path(struct text *t, const void *of, uint8_t i)
{
	static const char *const words[PROBE_PATHS] = {"absent", "shut", "open"};

	out(t, "\"%s\"", words[((const uint8_t *)of)[i]]);
}

static void put_rlimit(struct text *t, const void *of, uint8_t i)
{
	const struct probe_command *c = of;

	out(t, "[");
	out_number(t, c->soft[i]);
	out(t, ",");
	out_number(t, c->hard[i]);
	out(t, "]");
}

static void asked(struct text *t, const struct spec *s)
{
	const char *comma = "", *word;
	size_t at = 0;

	out(t, "\"asked\":{\"cpu_milli\":%u,\"disk\":%" PRIu64 ",\"env\":[", s->cpu_milli, s->disk);
	for (uint32_t i = 0; i < s->env.n; i++) {
		out(t, "%s", i == 0 ? "" : ",");
		out_n(t, s->env.v[i], strcspn(s->env.v[i], "="));
	}
	out(t, "],\"hostname\":");
	out_text(t, s->hostname);
	out(t, ",\"inodes\":%" PRIu64 ",\"memory\":%" PRIu64 ",\"pids\":%u,\"require\":[",
	    s->inodes, s->memory, s->pids);
	while ((word = require_word(s->require, &at)) != NULL) {
		out(t, "%s\"%s\"", comma, word);
		comma = ",";
	}
	out(t, "],\"root\":\"%s\",\"root_caps\":\"%s\",\"timeout_ms\":%" PRIu64 ",\"user\":",
	    s->root == ROOT_OVERLAY ? "overlay" : "readonly",
	    s->root_caps == ROOT_CAPS_FILES ? "files" : "none", s->timeout_ms);
	out_text(t, s->user);
	out(t, ",\"workdir\":");
	out_text(t, s->workdir);
	out(t, "}");
}

static void command(struct text *t, char *const *argv)
{
	uint8_t sum[crypto_hash_sha256_BYTES];
	char hex[2 * crypto_hash_sha256_BYTES + 1];
	crypto_hash_sha256_state st;
	int n = 0;

	(void)crypto_hash_sha256_init(&st);
	for (; argv[n] != NULL; n++) /* with the NUL of each */
		(void)crypto_hash_sha256_update(&st, (const uint8_t *)argv[n], strlen(argv[n]) + 1);
	(void)crypto_hash_sha256_final(&st, sum);
	out(t, "\"command\":{\"sha256\":\"%s\",\"words\":%d}",
	    sodium_bin2hex(hex, sizeof(hex), sum, sizeof(sum)), n);
}

static void task(struct text *t, const struct probe_task *p)
{
	static const char *const sets[PROBE_CAPS] = {"inheritable", "permitted", "effective",
						     "bounding", "ambient"};

	out(t, "{\"calls\":");
	out_object(t, probe_call_names, PROBE_CALLS, put_call, p);
	out(t, ",\"capabilities\":");
	out_object(t, sets, PROBE_CAPS, put_cap, p);
	out(t, ",\"gid\":[%u,%u,%u],\"groups\":%u,\"namespaces\":", p->gid[0], p->gid[1], p->gid[2],
	    p->groups);
	out_object(t, probe_ns_names, PROBE_NSS, put_ns, p);
	out(t,
	    ",\"no_new_privs\":%s,\"outside_file\":%u,\"pid\":%u,\"seccomp_filters\":%u,\"seccomp_mode\":%u,\"securebits\":\"%#x\",\"uid\":"
	    "[%u,%u,%u]}",
	    p->no_new_privs == 1 ? "true" : "false", p->outside, p->pid, p->seccomp_filters, p->seccomp_mode, p->securebits, p->uid[0], p->uid[1],
	    p->uid[2]);
}

static void map(struct text *t, const char *name, const struct probe_map *m, uint32_t n)
{
	out(t, "\"%s\":[", name);
	for (uint32_t i = 0; i < n; i++)
		out(t, "%s[%u,%u,%u]", i == 0 ? "" : ",", m[i].inside, m[i].outside, m[i].count);
	out(t, "]");
}

/* One text for each: "/usr ext4 ro,nosuid,nodev part /usr". */
static void mounts(struct text *t, const struct probe *p)
{
	out(t, "\"mounts\":[");
	for (uint32_t i = 0; i < p->mounts; i++) {
		const struct probe_mount *m = &p->mount[i];

		out(t, "%s\"%s %s %s%s%s%s%s part %s\"", i == 0 ? "" : ",", m->at, m->type,
		    (m->flags & PROBE_RDONLY) != 0 ? "ro" : "rw",
		    (m->flags & PROBE_NOSUID) != 0 ? ",nosuid" : "",
		    (m->flags & PROBE_NODEV) != 0 ? ",nodev" : "",
		    (m->flags & PROBE_NOEXEC) != 0 ? ",noexec" : "",
		    (m->flags & PROBE_HIDEPID) != 0 ? ",hidepid" : "", m->root);
	}
	out(t, "]");
}

static void measured(struct text *t, const struct receipt_host *h, const struct probe *p)
{
	static const char *const limits[PROBE_LIMITS] = {
#define LIMIT(id, name, soft, hard) name,
#include "wire/probe_facts.def"
#undef LIMIT
	};
	const struct probe_command *c = &p->command;
	const struct probe_world *w = &p->world;

	out(t, "\"measured\":{\"agent\":\"%s\",\"cgroup_by_host\":{\"cpu_milli\":", p->agent);
	out_limit(t, &h->cpu_milli);
	out(t, ",\"memory\":");
	out_limit(t, &h->memory);
	out(t, ",\"pids\":");
	out_limit(t, &h->pids);
	out(t, "},\"command\":");
	task(t, &c->task);
	out(t, ",\"descriptors_above_2\":%u,\"disk\":{\"bytes\":", c->fds);
	out_room(t, w->disk);
	out(t, ",\"inodes\":");
	out_room(t, w->inodes);
	out(t, "},");
	map(t, "gid_map", p->gid_map, p->gid_maps);
	out(t,
	    ",\"kernel\":{\"landlock_abi\":%u,\"machine\":\"%s\",\"node\":\"%s\",\"release\":\"%"
	    "s\"},",
	    p->landlock_abi, p->machine, p->node, p->release);
	mounts(t, p);
	out(t, ",\"network\":{\"errno\":");
	out_object(t, probe_reach_names, PROBE_REACHES, put_reach, w);
	out(t, ",\"interfaces\":[");
	for (uint32_t i = 0; i < p->ifs; i++)
		out(t, "%s\"%s\"", i == 0 ? "" : ",", p->if_name[i]);
	out(t, "]},\"pid1\":");
	task(t, &p->init);
	out(t, ",\"proc\":{\"covered\":");
	out_object(t, probe_covered_names, PROBE_COVEREDS, put_path, w->covered);
	out(t, ",\"processes\":%u,\"read_only\":", c->pids);
	out_object(t, probe_sealed_names, PROBE_SEALEDS, put_path, w->sealed);
	out(t, ",\"sys_open_errno\":%u},\"resource_limits\":", c->sys_open);
	out_object(t, limits, PROBE_LIMITS, put_rlimit, c);
	out(t, ",\"setgroups_denied\":%s,", p->setgroups_denied == 1 ? "true" : "false");
	map(t, "uid_map", p->uid_map, p->uid_maps);
	out(t, "}");
}

static void differences(struct text *t, const struct receipt_diffs *d)
{
	out(t, "\"differences\":[");
	for (uint32_t i = 0; i < MIN(d->n, (uint32_t)RECEIPT_DIFFS_MAX); i++) {
		out(t, "%s{\"asked\":", i == 0 ? "" : ",");
		out_n(t, d->d[i].asked, strnlen(d->d[i].asked, sizeof(d->d[i].asked)));
		out(t, ",\"measured\":");
		out_n(t, d->d[i].found, strnlen(d->d[i].found, sizeof(d->d[i].found)));
		out(t, ",\"wall\":");
		out_n(t, d->d[i].wall, strnlen(d->d[i].wall, sizeof(d->d[i].wall)));
		out(t, "}");
	}
	out(t, "]");
}

static void gaps(struct text *t, const struct receipt_host *h)
{
	out(t, "\"not_enforced\":[");
	for (uint32_t i = 0; i < h->gaps; i++) {
		out(t, "%s{\"reason\":", i == 0 ? "" : ",");
		out_text(t, h->gap[i].reason);
		out(t, ",\"wall\":");
		out_text(t, h->gap[i].wall);
		out(t, "}");
	}
	out(t, "]");
}

int receipt_begin(const struct receipt_host *h, struct buf *file)
{
	struct text t = {.b = file, .err = receipt_room(file)};

	out(&t, "{");
	asked(&t, h->spec);
	out(&t, ",\"brig\":\"%s\",", h->version);
	return t.err == 0 && buf_room(file) < REST_MAX ? -ENOBUFS : t.err;
}

int receipt_compose(const struct receipt_host *h, const struct probe *p,
		    const struct receipt_diffs *d, const uint8_t pub[RECEIPT_PUB], struct buf *file)
{
	const struct spec *s = h->spec;
	struct text text = {.b = file}, *t = &text;
	char key[RECEIPT_HEX];

	command(t, h->argv);
	out(t, ",");
	differences(t, d);
	out(t, ",\"enforced\":%s,\"host\":{\"kernel\":", d->n == 0 ? "true" : "false");
	out_text(t, h->release);
	out(t, ",\"key\":\"%s\",\"machine\":", receipt_pub_text(pub, key));
	out_text(t, h->machine);
	out(t, "},\"id\":\"%s\",\"image\":{\"digest\":", s->id);
	out_text(t, h->digest);
	out(t, ",\"name\":");
	out_text(t, s->image);
	out(t, "},");
	measured(t, h, p);
	out(t, ",");
	gaps(t, h);
	out(t, ",\"schema\":%d,\"tier\":", RECEIPT_SCHEMA);
	out_text(t, s->tier);
	out(t, ",\"time\":%" PRId64 "}", h->time);
	return t->err;
}
