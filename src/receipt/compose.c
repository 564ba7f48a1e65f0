#include "receipt/envelope_priv.h"
#include "receipt/payload_priv.h"

#include "base/num.h"
#include "core/profile.h"

#include <errno.h>
#include <inttypes.h>
#include <sodium.h>
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

static void out_number(struct payload *t, uint64_t v)
{
	if (v <= INT64_MAX)
		payload_out(t, "%" PRIu64, v);
	else
		payload_out(t, "\"unlimited\"");
}

/* What fits on a file system, which has 0 for no limit. */
static void out_room(struct payload *t, uint64_t v) { out_number(t, v == 0 ? UINT64_MAX : v); }

static void out_limit(struct payload *t, const struct receipt_limit *l)
{
	if (l->known)
		out_number(t, l->value);
	else
		payload_out(t, "null");
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
static void out_object(struct payload *t, const char *const *names, uint8_t n,
		       void (*value)(struct payload *t, const void *of, uint8_t i), const void *of)
{
	uint8_t order[UINT8_MAX];

	sort(names, n, order);
	for (uint8_t i = 0; i < n; i++) {
		payload_out(t, "%c\"%s\":", i == 0 ? '{' : ',', names[order[i]]);
		value(t, of, order[i]);
	}
	payload_out(t, "}");
}

static void put_call(struct payload *t, const void *of, uint8_t i)
{
	payload_out(t, "%u", ((const struct probe_task *)of)->call[i]);
}
static void put_cap(struct payload *t, const void *of, uint8_t i)
{
	payload_out(t, "\"%#" PRIx64 "\"", ((const struct probe_task *)of)->caps[i]);
}
static void put_ns(struct payload *t, const void *of, uint8_t i)
{
	out_number(t, ((const struct probe_task *)of)->ns[i]);
}
static void put_reach(struct payload *t, const void *of, uint8_t i)
{
	uint32_t r = ((const struct probe_world *)of)->reach[i];

	if (r == PROBE_UNTRIED)
		payload_out(t, "null");
	else
		payload_out(t, "%u", r);
}

static void put_path(struct payload *t, const void *of, uint8_t i)
{
	static const char *const words[PROBE_PATHS] = {"absent", "shut", "open"};

	payload_out(t, "\"%s\"", words[((const uint8_t *)of)[i]]);
}

static void put_rlimit(struct payload *t, const void *of, uint8_t i)
{
	const struct probe_command *c = of;

	payload_out(t, "[");
	out_number(t, c->soft[i]);
	payload_out(t, ",");
	out_number(t, c->hard[i]);
	payload_out(t, "]");
}

static void asked(struct payload *t, const struct spec *s)
{
	const char *comma = "", *word;
	size_t at = 0;

	payload_out(t, "\"asked\":{\"cpu_milli\":%u,\"disk\":%" PRIu64 ",\"env\":[", s->cpu_milli, s->disk);
	for (uint32_t i = 0; i < s->env.n; i++) {
		payload_out(t, "%s", i == 0 ? "" : ",");
		payload_json_n(t, s->env.v[i], strcspn(s->env.v[i], "="));
	}
	payload_out(t, "],\"hostname\":");
	payload_json(t, s->hostname);
	payload_out(t, ",\"inodes\":%" PRIu64 ",\"memory\":%" PRIu64 ",\"pids\":%u,\"require\":[",
	    s->inodes, s->memory, s->pids);
	while ((word = require_word(s->require, &at)) != NULL) {
		payload_out(t, "%s\"%s\"", comma, word);
		comma = ",";
	}
	payload_out(t, "],\"root\":\"%s\",\"root_caps\":\"%s\",\"sudo\":%s,\"timeout_ms\":%" PRIu64 ",\"user\":",
	    s->root == ROOT_OVERLAY ? "overlay" : "readonly",
	    s->root_caps == ROOT_CAPS_FILES ? "files" : "none", s->sudo != SUDO_NO ? "true" : "false", s->timeout_ms);
	payload_json(t, s->user);
	payload_out(t, ",\"workdir\":");
	payload_json(t, s->workdir);
	payload_out(t, "}");
}

static void command(struct payload *t, char *const *argv)
{
	uint8_t sum[crypto_hash_sha256_BYTES];
	char hex[2 * crypto_hash_sha256_BYTES + 1];
	crypto_hash_sha256_state st;
	int n = 0;

	(void)crypto_hash_sha256_init(&st);
	for (; argv[n] != NULL; n++) /* with the NUL of each */
		(void)crypto_hash_sha256_update(&st, (const uint8_t *)argv[n], strlen(argv[n]) + 1);
	(void)crypto_hash_sha256_final(&st, sum);
	payload_out(t, "\"command\":{\"sha256\":\"%s\",\"words\":%d}",
	    sodium_bin2hex(hex, sizeof(hex), sum, sizeof(sum)), n);
}

static void task(struct payload *t, const struct probe_task *p)
{
	static const char *const sets[PROBE_CAPS] = {"inheritable", "permitted", "effective",
						     "bounding", "ambient"};

	payload_out(t, "{\"calls\":");
	out_object(t, probe_call_names, PROBE_CALLS, put_call, p);
	payload_out(t, ",\"capabilities\":");
	out_object(t, sets, PROBE_CAPS, put_cap, p);
	payload_out(t, ",\"gid\":[%u,%u,%u],\"groups\":%u,\"namespaces\":", p->gid[0], p->gid[1], p->gid[2],
	    p->groups);
	out_object(t, probe_ns_names, PROBE_NSS, put_ns, p);
	payload_out(t,
	    ",\"no_new_privs\":%s,\"outside_file\":%u,\"pid\":%u,\"seccomp_filters\":%u,\"seccomp_mode\":%u,\"securebits\":\"%#x\",\"uid\":"
	    "[%u,%u,%u]}",
	    p->no_new_privs == 1 ? "true" : "false", p->outside, p->pid, p->seccomp_filters, p->seccomp_mode, p->securebits, p->uid[0], p->uid[1],
	    p->uid[2]);
}

static void map(struct payload *t, const char *name, const struct probe_map *m, uint32_t n)
{
	payload_out(t, "\"%s\":[", name);
	for (uint32_t i = 0; i < n; i++)
		payload_out(t, "%s[%u,%u,%u]", i == 0 ? "" : ",", m[i].inside, m[i].outside, m[i].count);
	payload_out(t, "]");
}

/* One text for each: "/usr ext4 ro,nosuid,nodev part /usr". */
static void mounts(struct payload *t, const struct probe *p)
{
	payload_out(t, "\"mounts\":[");
	for (uint32_t i = 0; i < p->mounts; i++) {
		const struct probe_mount *m = &p->mount[i];

		payload_out(t, "%s\"%s %s %s%s%s%s%s part %s\"", i == 0 ? "" : ",", m->at, m->type,
		    (m->flags & PROBE_RDONLY) != 0 ? "ro" : "rw",
		    (m->flags & PROBE_NOSUID) != 0 ? ",nosuid" : "",
		    (m->flags & PROBE_NODEV) != 0 ? ",nodev" : "",
		    (m->flags & PROBE_NOEXEC) != 0 ? ",noexec" : "",
		    (m->flags & PROBE_HIDEPID) != 0 ? ",hidepid" : "", m->root);
	}
	payload_out(t, "]");
}

static void measured(struct payload *t, const struct receipt_host *h, const struct probe *p)
{
	static const char *const limits[PROBE_LIMITS] = {
#define LIMIT(id, name, soft, hard) name,
#include "wire/probe_facts.def"
#undef LIMIT
	};
	const struct probe_command *c = &p->command;
	const struct probe_world *w = &p->world;

	payload_out(t, "\"measured\":{\"agent\":\"%s\",\"cgroup_by_host\":{\"cpu_milli\":", p->agent);
	out_limit(t, &h->cpu_milli);
	payload_out(t, ",\"memory\":");
	out_limit(t, &h->memory);
	payload_out(t, ",\"pids\":");
	out_limit(t, &h->pids);
	payload_out(t, "},\"command\":");
	task(t, &c->task);
	payload_out(t, ",\"descriptors_above_2\":%u,\"disk\":{\"bytes\":", c->fds);
	out_room(t, w->disk);
	payload_out(t, ",\"inodes\":");
	out_room(t, w->inodes);
	payload_out(t, "},");
	map(t, "gid_map", p->gid_map, p->gid_maps);
	payload_out(t,
	    ",\"kernel\":{\"landlock_abi\":%u,\"machine\":\"%s\",\"node\":\"%s\",\"release\":\"%"
	    "s\"},",
	    p->landlock_abi, p->machine, p->node, p->release);
	mounts(t, p);
	payload_out(t, ",\"network\":{\"errno\":");
	out_object(t, probe_reach_names, PROBE_REACHES, put_reach, w);
	payload_out(t, ",\"interfaces\":[");
	for (uint32_t i = 0; i < p->ifs; i++)
		payload_out(t, "%s\"%s\"", i == 0 ? "" : ",", p->if_name[i]);
	payload_out(t, "]},\"pid1\":");
	task(t, &p->init);
	payload_out(t, ",\"proc\":{\"covered\":");
	out_object(t, probe_covered_names, PROBE_COVEREDS, put_path, w->covered);
	payload_out(t, ",\"processes\":%u,\"read_only\":", c->pids);
	out_object(t, probe_sealed_names, PROBE_SEALEDS, put_path, w->sealed);
	payload_out(t, ",\"sys_open_errno\":%u},\"resource_limits\":", c->sys_open);
	out_object(t, limits, PROBE_LIMITS, put_rlimit, c);
	payload_out(t, ",\"setgroups_denied\":%s,", p->setgroups_denied == 1 ? "true" : "false");
	map(t, "uid_map", p->uid_map, p->uid_maps);
	payload_out(t, "}");
}

static void differences(struct payload *t, const struct probe_diffs *d)
{
	payload_out(t, "\"differences\":[");
	for (uint32_t i = 0; i < MIN(d->n, (uint32_t)PROBE_DIFFS_MAX); i++) {
		payload_out(t, "%s{\"asked\":", i == 0 ? "" : ",");
		payload_json_n(t, d->d[i].asked, strnlen(d->d[i].asked, sizeof(d->d[i].asked)));
		payload_out(t, ",\"measured\":");
		payload_json_n(t, d->d[i].found, strnlen(d->d[i].found, sizeof(d->d[i].found)));
		payload_out(t, ",\"wall\":");
		payload_json_n(t, d->d[i].wall, strnlen(d->d[i].wall, sizeof(d->d[i].wall)));
		payload_out(t, "}");
	}
	payload_out(t, "]");
}

static void gaps(struct payload *t, const struct receipt_host *h)
{
	payload_out(t, "\"not_enforced\":[");
	for (uint32_t i = 0; i < h->gaps; i++) {
		payload_out(t, "%s{\"reason\":", i == 0 ? "" : ",");
		payload_json(t, h->gap[i].reason);
		payload_out(t, ",\"wall\":");
		payload_json(t, h->gap[i].wall);
		payload_out(t, "}");
	}
	payload_out(t, "]");
}

int receipt_begin(const struct receipt_host *h, struct buf *file)
{
	int r = receipt_room(file);
	struct payload t = payload_begin(file);

	if (r < 0)
		return r;
	payload_out(&t, "{");
	asked(&t, h->spec);
	payload_out(&t, ",\"brig\":\"%s\",", h->version);
	r = payload_end(&t);
	return r == 0 && buf_room(file) < REST_MAX ? -ENOBUFS : r;
}

size_t receipt_most(const struct buf *begun) { return begun->len + REST_MAX; }

int receipt_compose(const struct receipt_host *h, const struct probe *p,
		    const struct probe_diffs *d, const uint8_t pub[RECEIPT_PUB], struct buf *file)
{
	const struct spec *s = h->spec;
	struct payload text = payload_begin(file), *t = &text;
	char key[RECEIPT_HEX];

	command(t, h->argv);
	payload_out(t, ",");
	differences(t, d);
	payload_out(t, ",\"enforced\":%s,\"host\":{\"kernel\":", d->n == 0 ? "true" : "false");
	payload_json(t, h->release);
	payload_out(t, ",\"key\":\"%s\",\"machine\":", receipt_pub_text(pub, key));
	payload_json(t, h->machine);
	payload_out(t, "},\"id\":\"%s\",\"image\":{\"digest\":", s->id);
	payload_json(t, h->digest);
	payload_out(t, ",\"name\":");
	payload_json(t, s->image);
	payload_out(t, "},");
	measured(t, h, p);
	payload_out(t, ",");
	gaps(t, h);
	payload_out(t, ",\"schema\":%d,\"tier\":", RECEIPT_SCHEMA);
	payload_json(t, s->tier);
	payload_out(t, ",\"time\":%" PRId64 "}", h->time);
	return payload_end(t);
}
