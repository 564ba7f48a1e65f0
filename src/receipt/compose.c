#include "receipt/receipt.h"

#include "base/cleanup.h"
#include "base/num.h"
#include "base/quote.h"

#include <inttypes.h>
#include <jansson.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * The payload: one line of JSON, keys sorted, no spaces, so that the same content has the same bytes.
 * Texts of the report are printable; those of the settings are the caller's, and one that is no UTF-8 is
 * escaped. Values of environment variables stay out: they may be confidential.
 */

/*
 * Some five hundred small objects, made once and let go together: they come from one block, because a
 * general allocator takes longer for them than the whole measuring.
 */
enum { ARENA_MAX = 512 * 1024 };
static struct {
	uint8_t *at;
	size_t used;
} arena;

static void *arena_take(size_t n)
{
	size_t at = arena.used, want = (n + 15) & ~(size_t)15;

	if (n > ARENA_MAX || want > ARENA_MAX - at)
		return NULL;
	arena.used = at + want;
	return arena.at + at;
}

static void arena_drop(void *p) { (void)p; }

/* jansson frees what an object cannot take; a missing part shows as a NULL, which the top level reports. */
static bool put(json_t *to, const char *key, json_t *v) { return json_object_set_new(to, key, v) == 0; }

static json_t *text(const char *s)
{
	json_t *j = s != NULL ? json_string(s) : json_null();
	char q[QUOTE_MAX];

	return j != NULL ? j : json_string(quote_bare(s, q));
}

static json_t *number(uint64_t v)
{
	return v <= INT64_MAX ? json_integer((json_int_t)v) : json_string("unlimited");
}

static json_t *limit(const struct receipt_limit *l) { return l->known ? number(l->value) : json_null(); }

static json_t *hex(uint64_t v)
{
	char s[24];

	(void)snprintf(s, sizeof(s), "%#" PRIx64, v);
	return json_string(s);
}

static json_t *names_of_env(const struct strv *env)
{
	json_t *a = json_array();

	for (uint32_t i = 0; i < env->n; i++) {
		size_t n = strcspn(env->v[i], "=");

		if (json_array_append_new(a, json_stringn(env->v[i], n)) < 0)
			break;
	}
	return a;
}

static json_t *required(uint32_t bits)
{
	static const struct {
		const char *name;
		uint32_t bit;
	} words[] = {
#define REQUIRE(id, bit, name, text) {name, REQ_NEED_##id},
#include "core/require.def"
#undef REQUIRE
	};
	json_t *a = json_array();

	for (size_t i = 0; i < ARRAY_LEN(words); i++)
		if ((bits & words[i].bit) != 0)
			(void)json_array_append_new(a, json_string(words[i].name));
	return a;
}

static json_t *asked(const struct spec *s)
{
	return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:s, s:s, s:o, s:o, s:o, s:o, s:o}", "memory",
			 (json_int_t)s->memory, "disk", (json_int_t)s->disk, "inodes", (json_int_t)s->inodes,
			 "cpu_milli", (json_int_t)s->cpu_milli, "pids", (json_int_t)s->pids, "timeout_ms",
			 (json_int_t)s->timeout_ms, "root", s->root == ROOT_OVERLAY ? "overlay" : "readonly", "root_caps",
			 s->root_caps == ROOT_CAPS_FILES ? "files" : "none", "user", text(s->user), "workdir",
			 text(s->workdir), "hostname", text(s->hostname), "env", names_of_env(&s->env), "require",
			 required(s->require));
}

static json_t *command(char *const *argv)
{
	uint8_t sum[crypto_hash_sha256_BYTES];
	char out[2 * crypto_hash_sha256_BYTES + 1];
	crypto_hash_sha256_state st;
	int n = 0;

	(void)crypto_hash_sha256_init(&st);
	for (; argv[n] != NULL; n++) /* with the NUL of each */
		(void)crypto_hash_sha256_update(&st, (const uint8_t *)argv[n], strlen(argv[n]) + 1);
	(void)crypto_hash_sha256_final(&st, sum);
	return json_pack("{s:i, s:s}", "words", n, "sha256", sodium_bin2hex(out, sizeof(out), sum, sizeof(sum)));
}

static json_t *task(const struct probe_task *t, bool outside_tried)
{
	static const char *const sets[PROBE_CAPS] = {"inheritable", "permitted", "effective", "bounding", "ambient"};
	json_t *caps = json_object(), *ns = json_object(), *calls = json_object();

	for (int i = 0; i < PROBE_CAPS; i++)
		(void)put(caps, sets[i], hex(t->caps[i]));
	for (int i = 0; i < PROBE_NSS; i++)
		(void)put(ns, probe_ns_names[i], number(t->ns[i]));
	for (int i = 0; i < PROBE_CALLS; i++)
		(void)put(calls, probe_call_names[i], json_integer(t->call[i]));
	return json_pack("{s:i, s:[i,i,i], s:[i,i,i], s:i, s:b, s:i, s:i, s:o, s:o, s:o, s:o, s:o}", "pid", (int)t->pid, "uid",
			 (int)t->uid[0], (int)t->uid[1], (int)t->uid[2], "gid", (int)t->gid[0], (int)t->gid[1],
			 (int)t->gid[2], "groups", (int)t->groups, "no_new_privs", t->no_new_privs == 1,
			 "seccomp_mode", (int)t->seccomp_mode, "seccomp_filters", (int)t->seccomp_filters, "securebits",
			 hex(t->securebits), "capabilities", caps, "namespaces", ns, "calls", calls, "outside_file",
			 outside_tried ? json_integer(t->outside) : json_null());
}

static const char *path_word(uint8_t v)
{
	static const char *const words[PROBE_PATHS] = {"absent", "shut", "open"};

	return words[v];
}

static json_t *proc(const struct probe_command *c)
{
	json_t *covered = json_object(), *sealed = json_object();

	for (int i = 0; i < PROBE_COVEREDS; i++)
		(void)put(covered, probe_covered_names[i], json_string(path_word(c->covered[i])));
	for (int i = 0; i < PROBE_SEALEDS; i++)
		(void)put(sealed, probe_sealed_names[i], json_string(path_word(c->sealed[i])));
	return json_pack("{s:i, s:i, s:o, s:o}", "processes", (int)c->pids, "sys_open_errno", (int)c->sys_open,
			 "covered", covered, "read_only", sealed);
}

static json_t *rlimits(const struct probe_command *c)
{
	json_t *o = json_object();

	for (int i = 0; i < PROBE_LIMITS; i++)
		(void)put(o, probe_limits[i].name, json_pack("[o,o]", number(c->soft[i]), number(c->hard[i])));
	return o;
}

static json_t *net(const struct probe *p)
{
	json_t *reach = json_object(), *ifs = json_array();

	for (int i = 0; i < PROBE_REACHES; i++)
		(void)put(reach, probe_reach_names[i], json_integer(p->command.reach[i]));
	for (uint32_t i = 0; i < p->ifs; i++)
		(void)json_array_append_new(ifs, json_string(p->if_name[i]));
	return json_pack("{s:o, s:o}", "errno", reach, "interfaces", ifs);
}

static json_t *map(const struct probe_map *m, uint32_t n)
{
	json_t *a = json_array();

	for (uint32_t i = 0; i < n; i++)
		(void)json_array_append_new(a, json_pack("[I,I,I]", (json_int_t)m[i].inside, (json_int_t)m[i].outside,
							 (json_int_t)m[i].count));
	return a;
}

/* One text for each: "/usr ext4 ro,nosuid,nodev part /usr". */
static json_t *mounts(const struct probe *p)
{
	json_t *a = json_array();

	for (uint32_t i = 0; i < p->mounts; i++) {
		const struct probe_mount *m = &p->mount[i];
		char s[2 * PROBE_TEXT + 96];

		(void)snprintf(s, sizeof(s), "%s %s %s%s%s%s%s part %s", m->at, m->type,
			       (m->flags & PROBE_RDONLY) != 0 ? "ro" : "rw", (m->flags & PROBE_NOSUID) != 0 ? ",nosuid" : "",
			       (m->flags & PROBE_NODEV) != 0 ? ",nodev" : "", (m->flags & PROBE_NOEXEC) != 0 ? ",noexec" : "",
			       (m->flags & PROBE_HIDEPID) != 0 ? ",hidepid" : "", m->root);
		(void)json_array_append_new(a, json_string(s));
	}
	return a;
}

static json_t *measured(const struct receipt_host *h, const struct probe *p)
{
	json_t *cgroup = json_pack("{s:o, s:o, s:o}", "memory", limit(&h->memory), "pids", limit(&h->pids), "cpu_milli",
				   limit(&h->cpu_milli));
	json_t *kernel = json_pack("{s:s, s:s, s:s, s:i}", "release", p->release, "machine", p->machine, "node", p->node,
				   "landlock_abi", (int)p->landlock_abi);

	return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:s, s:o, s:o, s:i, s:b}", "pid1",
			 task(&p->init, h->outside_tried), "command", task(&p->command.task, h->outside_tried), "proc",
			 proc(&p->command), "resource_limits", rlimits(&p->command), "network", net(p), "uid_map",
			 map(p->uid_map, p->uid_maps), "gid_map", map(p->gid_map, p->gid_maps), "mounts", mounts(p), "agent",
			 p->agent, "kernel", kernel, "cgroup_by_host", cgroup, "descriptors_above_2",
			 (int)p->command.fds, "setgroups_denied", p->setgroups_denied == 1);
}

static json_t *gaps(const struct receipt_host *h)
{
	json_t *a = json_array();

	for (uint32_t i = 0; i < h->gaps; i++)
		(void)json_array_append_new(a, json_pack("{s:s, s:s}", "wall", h->gap[i].wall, "reason", h->gap[i].reason));
	return a;
}

static json_t *differences(const struct receipt_diffs *d)
{
	json_t *a = json_array();

	for (uint32_t i = 0; i < MIN(d->n, (uint32_t)RECEIPT_DIFFS_MAX); i++)
		(void)json_array_append_new(a, json_pack("{s:s, s:o, s:o}", "wall", d->d[i].wall, "asked",
							 text(d->d[i].asked), "measured", text(d->d[i].found)));
	return a;
}

static char *compose(const struct receipt_host *h, const struct probe *p, const struct receipt_diffs *d,
		      const uint8_t pub[RECEIPT_PUB])
{
	const struct spec *s = h->spec;
	char key[RECEIPT_HEX];
	json_t *image = json_pack("{s:o, s:o}", "name", text(s->image), "digest", text(h->digest));
	json_t *host = json_pack("{s:s, s:s, s:s}", "kernel", h->release, "machine", h->machine, "key",
				 receipt_pub_text(pub, key));
	json_t *top = json_pack("{s:i, s:s, s:I, s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:b}", "schema", RECEIPT_SCHEMA,
				"id", s->id, "time", (json_int_t)h->time, "brig", h->version, "tier", s->tier, "image",
				image, "host", host, "command", command(h->argv), "asked", asked(s), "measured",
				measured(h, p), "not_enforced", gaps(h), "differences", differences(d), "enforced",
				d->n == 0);
	char *out = top != NULL ? json_dumps(top, JSON_COMPACT | JSON_SORT_KEYS) : NULL;

	json_decref(top);
	return out;
}

char *receipt_compose(const struct receipt_host *h, const struct probe *p, const struct receipt_diffs *d,
		      const uint8_t pub[RECEIPT_PUB])
{
	json_malloc_t old_malloc;
	json_free_t old_free;
	char *in_arena, *out = NULL;

	arena.at = malloc(ARENA_MAX);
	if (arena.at == NULL)
		return NULL;
	arena.used = 0;
	json_get_alloc_funcs(&old_malloc, &old_free);
	json_set_alloc_funcs(arena_take, arena_drop);
	in_arena = compose(h, p, d, pub);
	json_set_alloc_funcs(old_malloc, old_free);
	if (in_arena != NULL)
		out = strdup(in_arena);
	free(steal_ptr(&arena.at));
	return out;
}
