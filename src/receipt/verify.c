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
	OPTIONAL,
	TRIED
};
struct part {
	const char *key;
	enum shape shape; /* OPTIONAL: a text or null; TRIED: a number or null */
};

static const struct part top_parts[] = {
    {"asked", OBJECT},	   {"brig", STRING},	    {"command", OBJECT}, {"differences", ARRAY},
    {"enforced", BOOLEAN}, {"host", OBJECT},	    {"id", STRING},	 {"image", OBJECT},
    {"measured", OBJECT},  {"not_enforced", ARRAY}, {"schema", INTEGER}, {"tier", STRING},
    {"time", INTEGER},
};
static const struct part asked_parts[] = {
    {"cpu_milli", INTEGER}, {"disk", INTEGER},	   {"env", ARRAY},	    {"hostname", OPTIONAL},
    {"inodes", INTEGER},    {"memory", INTEGER},   {"pids", INTEGER},	    {"require", ARRAY},
    {"root", STRING},	    {"root_caps", STRING}, {"timeout_ms", INTEGER}, {"user", OPTIONAL},
    {"workdir", OPTIONAL},
};
static const struct part measured_parts[] = {
    {"agent", STRING},
    {"cgroup_by_host", OBJECT},
    {"command", OBJECT},
    {"descriptors_above_2", INTEGER},
    {"gid_map", ARRAY},
    {"kernel", OBJECT},
    {"mounts", ARRAY},
    {"network", OBJECT},
    {"pid1", OBJECT},
    {"proc", OBJECT},
    {"resource_limits", OBJECT},
    {"setgroups_denied", BOOLEAN},
    {"uid_map", ARRAY},
};
static const struct part task_parts[] = {
    {"calls", OBJECT},	       {"capabilities", OBJECT}, {"gid", ARRAY},
    {"groups", INTEGER},       {"namespaces", OBJECT},	 {"no_new_privs", BOOLEAN},
    {"outside_file", TRIED},   {"pid", INTEGER},	 {"seccomp_filters", INTEGER},
    {"seccomp_mode", INTEGER}, {"securebits", STRING},	 {"uid", ARRAY},
};
static const struct part command_parts[] = {{"sha256", STRING}, {"words", INTEGER}};
static const struct part host_parts[] = {{"kernel", STRING}, {"key", STRING}, {"machine", STRING}};
static const struct part image_parts[] = {{"digest", OPTIONAL}, {"name", STRING}};
static const struct part gap_parts[] = {{"reason", STRING}, {"wall", STRING}};
static const struct part diff_parts[] = {{"asked", STRING}, {"measured", STRING}, {"wall", STRING}};

static bool has_shape(const json_t *v, enum shape s)
{
	if (v == NULL)
		return false;
	if (s == BOOLEAN)
		return json_is_boolean(v);
	if (s == OPTIONAL)
		return json_is_null(v) || json_is_string(v);
	if (s == TRIED)
		return json_is_null(v) || json_is_integer(v);
	return (int)json_typeof(v) == (int)s;
}

/* Exactly these parts. */
static bool fits(const json_t *o, const struct part *p, size_t n)
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

static bool well_formed(const json_t *top)
{
	const json_t *m = json_object_get(top, "measured");

	return FITS(top, top_parts) && FITS(json_object_get(top, "asked"), asked_parts) &&
	       FITS(m, measured_parts) && FITS(json_object_get(m, "pid1"), task_parts) &&
	       FITS(json_object_get(m, "command"), task_parts) &&
	       FITS(json_object_get(top, "command"), command_parts) &&
	       FITS(json_object_get(top, "host"), host_parts) &&
	       FITS(json_object_get(top, "image"), image_parts) &&
	       all_fit(json_object_get(top, "not_enforced"), gap_parts, ARRAY_LEN(gap_parts),
		       RECEIPT_GAPS_MAX) &&
	       all_fit(json_object_get(top, "differences"), diff_parts, ARRAY_LEN(diff_parts),
		       RECEIPT_DIFFS_MAX);
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
		const json_t *t = json_object_get(m, who[i]), *calls = json_object_get(t, "calls");

		if (!json_is_true(json_object_get(t, "no_new_privs")) ||
		    json_integer_value(json_object_get(t, "seccomp_mode")) != 2 ||
		    json_object_size(calls) != PROBE_CALLS)
			return false;
		for (int c = 0; c < PROBE_CALLS; c++)
			if (json_integer_value(json_object_get(calls, probe_call_names[c])) !=
			    probe_call_wants[c])
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
