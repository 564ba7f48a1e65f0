#include "receipt/envelope_priv.h"

#include "base/cleanup.h"
#include "base/num.h"
#include "base/quote.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

/*
 * Is a file a receipt, whole and genuine? Fed by files of anybody's. In this order: the two lines,
 * the key, the signature, and only then the JSON: once, without repeated keys, byte for byte as
 * this program writes it, every part of schema 1 there and nothing else, and not at odds with
 * itself.
 *
 * A signature says who wrote it, not that what it says makes sense: the last checks hold for our
 * own key too.
 */

enum shape {
	OBJECT = JSON_OBJECT,
	ARRAY = JSON_ARRAY,
	STRING = JSON_STRING,
	INTEGER = JSON_INTEGER,
	BOOLEAN = 100,
	OPTIONAL, /* a text or null */
	TRIED,	  /* a number or null */
	LIMIT,	  /* a number, "unlimited" or null */
	STRINGS,  /* a list of texts */
	TEXTS,	  /* an object of texts */
	NUMBERS,  /* an object of numbers */
	TRIEDS,	  /* an object of such */
	IDS,	  /* a list of three numbers */
	RANGES,	  /* a list of such lists */
	PAIRS,	  /* an object of lists of two limits */
};
struct part {
	const char *key;
	enum shape shape;
};

static const struct part top_parts[] = {
    {"asked", OBJECT},	   {"brig", STRING},	    {"command", OBJECT}, {"differences", ARRAY},
    {"enforced", BOOLEAN}, {"host", OBJECT},	    {"id", STRING},	 {"image", OBJECT},
    {"measured", OBJECT},  {"not_enforced", ARRAY}, {"schema", INTEGER}, {"tier", STRING},
    {"time", INTEGER},
};
static const struct part asked_parts[] = {
    {"cpu_milli", INTEGER}, {"disk", INTEGER},	   {"env", STRINGS},	    {"hostname", OPTIONAL},
    {"inodes", INTEGER},    {"memory", INTEGER},   {"pids", INTEGER},	    {"require", STRINGS},
    {"root", STRING},	    {"root_caps", STRING}, {"sudo", BOOLEAN},	    {"timeout_ms", INTEGER},
    {"user", OPTIONAL},	    {"workdir", OPTIONAL},
};
static const struct part measured_parts[] = {
    {"agent", STRING},
    {"cgroup_by_host", OBJECT},
    {"command", OBJECT},
    {"descriptors_above_2", INTEGER},
    {"disk", OBJECT},
    {"gid_map", RANGES},
    {"kernel", OBJECT},
    {"mounts", STRINGS},
    {"network", OBJECT},
    {"pid1", OBJECT},
    {"proc", OBJECT},
    {"resource_limits", PAIRS},
    {"setgroups_denied", BOOLEAN},
    {"uid_map", RANGES},
};
static const struct part task_parts[] = {
    {"calls", NUMBERS},	       {"capabilities", TEXTS}, {"gid", IDS},
    {"groups", INTEGER},       {"namespaces", NUMBERS},  {"no_new_privs", BOOLEAN},
    {"outside_file", INTEGER}, {"pid", INTEGER},	  {"seccomp_filters", INTEGER},
    {"seccomp_mode", INTEGER}, {"securebits", STRING},	  {"uid", IDS},
};
static const struct part cgroup_parts[] = {{"cpu_milli", LIMIT}, {"memory", LIMIT}, {"pids", LIMIT}};
static const struct part disk_parts[] = {{"bytes", LIMIT}, {"inodes", LIMIT}};
static const struct part kernel_parts[] = {
    {"landlock_abi", INTEGER}, {"machine", STRING}, {"node", STRING}, {"release", STRING}};
static const struct part network_parts[] = {{"errno", TRIEDS}, {"interfaces", STRINGS}};
static const struct part proc_parts[] = {{"covered", TEXTS},
					 {"processes", INTEGER},
					 {"read_only", TEXTS},
					 {"sys_open_errno", INTEGER}};
static const struct part command_parts[] = {{"sha256", STRING}, {"words", INTEGER}};
static const struct part host_parts[] = {{"kernel", STRING}, {"key", STRING}, {"machine", STRING}};
static const struct part image_parts[] = {{"digest", OPTIONAL}, {"name", STRING}};
static const struct part gap_parts[] = {{"reason", STRING}, {"wall", STRING}};
static const struct part diff_parts[] = {{"asked", STRING}, {"measured", STRING}, {"wall", STRING}};

/* One value of its own. */
static bool is_one(const json_t *v, enum shape s)
{
	if (v == NULL)
		return false;
	if (s == BOOLEAN)
		return json_is_boolean(v);
	if (s == OPTIONAL)
		return json_is_null(v) || json_is_string(v);
	if (s == TRIED)
		return json_is_null(v) || json_is_integer(v);
	if (s == LIMIT)
		return json_is_null(v) || json_is_integer(v) ||
		       (json_is_string(v) && strcmp(json_string_value(v), "unlimited") == 0);
	return (int)json_typeof(v) == (int)s;
}

static bool is_list(const json_t *v, enum shape s)
{
	for (size_t i = 0; i < json_array_size(v); i++)
		if (!is_one(json_array_get(v, i), s))
			return false;
	return json_is_array(v);
}

static bool is_map(json_t *v, enum shape s)
{
	const char *key;
	json_t *one;

	json_object_foreach (v, key, one)
		if (!is_one(one, s))
			return false;
	return json_is_object(v);
}

static bool is_row(const json_t *v, enum shape s, size_t n)
{
	return is_list(v, s) && json_array_size(v) == n;
}

static bool is_ranges(const json_t *v)
{
	for (size_t i = 0; i < json_array_size(v); i++)
		if (!is_row(json_array_get(v, i), INTEGER, 3))
			return false;
	return json_is_array(v);
}

static bool is_pairs(json_t *v)
{
	const char *key;
	json_t *one;

	json_object_foreach (v, key, one)
		if (!is_row(one, LIMIT, 2))
			return false;
	return json_is_object(v);
}

static bool has_shape(json_t *v, enum shape s)
{
	switch (s) {
	case STRINGS:
		return is_list(v, STRING);
	case TEXTS:
		return is_map(v, STRING);
	case NUMBERS:
		return is_map(v, INTEGER);
	case TRIEDS:
		return is_map(v, TRIED);
	case IDS:
		return is_row(v, INTEGER, 3);
	case RANGES:
		return is_ranges(v);
	case PAIRS:
		return is_pairs(v);
	case OBJECT:
	case ARRAY:
	case STRING:
	case INTEGER:
	case BOOLEAN:
	case OPTIONAL:
	case TRIED:
	case LIMIT:
		break;
	}
	return is_one(v, s);
}

/* Exactly these parts. */
static bool fits(json_t *o, const struct part *p, size_t n)
{
	if (!json_is_object(o) || json_object_size(o) != n)
		return false;
	for (size_t i = 0; i < n; i++)
		if (!has_shape(json_object_get(o, p[i].key), p[i].shape))
			return false;
	return true;
}
#define FITS(o, parts) fits(o, parts, ARRAY_LEN(parts))

static bool all_fit(const json_t *a, const struct part *p, size_t n, size_t max)
{
	if (json_array_size(a) > max)
		return false;
	for (size_t i = 0; i < json_array_size(a); i++)
		if (!fits(json_array_get(a, i), p, n))
			return false;
	return true;
}

static const char *word(const json_t *o, const char *key)
{
	return json_string_value(json_object_get(o, key));
}

/* A text for people: escaped where it is not plain. */
static void take_text(char *dst, size_t size, const char *src)
{
	char q[QUOTE_MAX];

	(void)snprintf(dst, size, "%s", src != NULL ? quote_bare(src, q) : "");
}

static bool well_formed(json_t *top)
{
	json_t *m = json_object_get(top, "measured");

	return FITS(top, top_parts) && FITS(json_object_get(top, "asked"), asked_parts) &&
	       FITS(m, measured_parts) && FITS(json_object_get(m, "pid1"), task_parts) &&
	       FITS(json_object_get(m, "command"), task_parts) &&
	       FITS(json_object_get(m, "cgroup_by_host"), cgroup_parts) &&
	       FITS(json_object_get(m, "disk"), disk_parts) &&
	       FITS(json_object_get(m, "kernel"), kernel_parts) &&
	       FITS(json_object_get(m, "network"), network_parts) &&
	       FITS(json_object_get(m, "proc"), proc_parts) &&
	       FITS(json_object_get(top, "command"), command_parts) &&
	       FITS(json_object_get(top, "host"), host_parts) &&
	       FITS(json_object_get(top, "image"), image_parts) &&
	       all_fit(json_object_get(top, "not_enforced"), gap_parts, ARRAY_LEN(gap_parts),
		       RECEIPT_GAPS_MAX) &&
	       all_fit(json_object_get(top, "differences"), diff_parts, ARRAY_LEN(diff_parts),
		       PROBE_DIFFS_MAX);
}

/* Were all calls refused? One of another version may have tried others than we do; what those
 * had to answer with we do not know, but that they must not have been let through. */
static bool all_refused(json_t *calls)
{
	const char *name;
	json_t *got;

	json_object_foreach (calls, name, got) {
		json_int_t want = 0;

		for (int c = 0; c < PROBE_CALLS; c++)
			if (strcmp(probe_call_names[c], name) == 0)
				want = probe_call_wants[c];
		if (want == 0 ? json_integer_value(got) <= 0 : json_integer_value(got) != want)
			return false;
	}
	return json_object_size(calls) > 0;
}

/* What one that says the walls stand cannot say at the same time. */
static bool agrees(const json_t *top)
{
	static const char *const who[] = {"pid1", "command"};
	bool enforced = json_is_true(json_object_get(top, "enforced"));
	const json_t *m = json_object_get(top, "measured");

	if (enforced != (json_array_size(json_object_get(top, "differences")) == 0))
		return false;
	for (size_t i = 0; enforced && i < ARRAY_LEN(who); i++) {
		const json_t *t = json_object_get(m, who[i]);

		if (!json_is_true(json_object_get(t, "no_new_privs")) ||
		    json_integer_value(json_object_get(t, "seccomp_mode")) != 2 ||
		    !all_refused(json_object_get(t, "calls")))
			return false;
	}
	return true;
}

static void take_facts(const json_t *top, struct receipt_facts *f)
{
	const json_t *image = json_object_get(top, "image"),
		     *gaps = json_object_get(top, "not_enforced");
	const json_t *diffs = json_object_get(top, "differences");

	take_text(f->id, sizeof(f->id), word(top, "id"));
	take_text(f->tier, sizeof(f->tier), word(top, "tier"));
	take_text(f->image, sizeof(f->image), word(image, "name"));
	take_text(f->digest, sizeof(f->digest), word(image, "digest"));
	f->time = json_integer_value(json_object_get(top, "time"));
	f->enforced = json_is_true(json_object_get(top, "enforced"));
	f->gaps = (uint32_t)json_array_size(gaps);
	f->differences = (uint32_t)json_array_size(diffs);
	for (uint32_t i = 0; i < f->gaps; i++) {
		take_text(f->gap[i], sizeof(f->gap[i]), word(json_array_get(gaps, i), "wall"));
		take_text(f->reason[i], sizeof(f->reason[i]),
			  word(json_array_get(gaps, i), "reason"));
	}
	for (uint32_t i = 0; i < f->differences; i++) {
		const json_t *d = json_array_get(diffs, i);
		char wall[QUOTE_MAX], asked[QUOTE_MAX], found[QUOTE_MAX];

		(void)snprintf(f->diff[i], sizeof(f->diff[i]), "%s: asked for %s, measured %s",
			       quote_bare(word(d, "wall"), wall),
			       quote_bare(word(d, "asked"), asked),
			       quote_bare(word(d, "measured"), found));
	}
}

static int check_payload(const struct receipt_parts *parts, struct receipt_facts *ret,
			 struct err *e)
{
	json_t *top = json_loadb(parts->payload, parts->n, JSON_REJECT_DUPLICATES, NULL);
	_cleanup_free_ char *again =
	    top != NULL ? json_dumps(top, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
	const json_t *schema = json_object_get(top, "schema");
	char key[RECEIPT_HEX];
	int r = 0;

	if (top == NULL || again == NULL)
		r = err_set(e, ERR_INVALID, EBADMSG,
			    "its payload is no JSON object, or repeats a key");
	else if (json_is_integer(schema) && json_integer_value(schema) > RECEIPT_SCHEMA)
		r = err_set(e, ERR_UNSUPPORTED, EPROTONOSUPPORT,
			    "of schema %lld; this version of brig knows %d",
			    (long long)json_integer_value(schema), RECEIPT_SCHEMA);
	else if (strlen(again) != parts->n || memcmp(again, parts->payload, parts->n) != 0)
		r = err_set(e, ERR_INVALID, EBADMSG, "its payload is not in canonical form");
	else if (json_integer_value(schema) != RECEIPT_SCHEMA || !well_formed(top))
		r = err_set(e, ERR_INVALID, EBADMSG,
			    "its payload lacks a part, or has one too many");
	else if (strcmp(word(json_object_get(top, "host"), "key"),
			receipt_pub_text(parts->pub, key)) != 0)
		r = err_set(e, ERR_INVALID, EBADMSG, "its payload names another key");
	else if (!agrees(top))
		r = err_set(e, ERR_INVALID, EBADMSG,
			    "what it measured and what it concludes are at odds");
	else
		take_facts(top, ret);
	json_decref(top);
	return r;
}

int receipt_verify(const void *p, size_t n, const uint8_t pub[RECEIPT_PUB],
		   struct receipt_facts *ret, struct err *e)
{
	struct receipt_parts parts;
	char key[RECEIPT_HEX], want[RECEIPT_HEX];
	int r = receipt_split(p, n, &parts, e);

	if (r < 0)
		return r;
	if (memcmp(parts.pub, pub, RECEIPT_PUB) != 0)
		return err_set(e, ERR_DENIED, EKEYREJECTED,
			       "it names another key, %.16s..., than %.16s...",
			       receipt_pub_text(parts.pub, key), receipt_pub_text(pub, want));
	if (!receipt_signed_by(&parts, pub))
		return err_set(e, ERR_DENIED, EBADMSG,
			       "the signature does not fit: it was changed, or is not of this key");
	*ret = (struct receipt_facts){.payload_at = (size_t)(parts.payload - (const char *)p),
				      .payload_len = parts.n};
	memcpy(ret->pub, pub, RECEIPT_PUB);
	return check_payload(&parts, ret, e);
}
