#include "core/profile.h"
/*
 * Loading a profile: form first (profile_scan.c), then the values by libcyaml's schema, then each
 * value through the same strict readers the command line uses, with the line of its key in front of
 * every refusal. Who feeds it: a file somebody else may have written; nothing in it can do more than
 * change settings, and spec_check looks at the merged result again.
 */
#include "base/cleanup.h"
#include "base/num.h"
#include "base/quote.h"
#include "base/units.h"
#include "core/profile_scan.h"
#include "core/yaml_tree.h"

#include <cyaml/cyaml.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What the schema loads. All scalars come as text: "64M" and 0.5 have their own readers. */
struct raw {
	char *version, *name, *tier, *image, *memory, *cpus, *pids, *disk, *timeout;
	char *workdir, *user, *root, *root_caps, *sudo;
	char **require;
	unsigned int require_count;
};

static const cyaml_schema_value_t word_schema = {
    CYAML_VALUE_STRING(CYAML_FLAG_POINTER, char, 1, PROFILE_MAX),
};

#define TEXT(key) CYAML_FIELD_STRING_PTR(#key, CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, struct raw, \
					 key, 1, PROFILE_MAX)
static const cyaml_schema_field_t raw_fields[] = {
    TEXT(version),
    TEXT(name),
    TEXT(tier),
    TEXT(image),
    TEXT(memory),
    TEXT(cpus),
    TEXT(pids),
    TEXT(disk),
    TEXT(timeout),
    TEXT(workdir),
    TEXT(user),
    TEXT(root),
    TEXT(root_caps),
    TEXT(sudo),
    CYAML_FIELD_SEQUENCE("require", CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, struct raw, require,
			 &word_schema, 0, 64),
    CYAML_FIELD_IGNORE("env", CYAML_FLAG_OPTIONAL),    /* a free map: read by the scan */
    CYAML_FIELD_IGNORE("egress", CYAML_FLAG_OPTIONAL), /* checked by the scan */
    CYAML_FIELD_END,
};
_Static_assert(ARRAY_LEN(raw_fields) == PROFILE_KEY_COUNT + 1, "a profile key without a schema row");

static const cyaml_schema_value_t raw_schema = {
    CYAML_VALUE_MAPPING(CYAML_FLAG_POINTER, struct raw, raw_fields),
};

/* The loader's own words for what went wrong: the first error line it logs. */
struct loader_log {
	char first[120];
};

static void on_log(cyaml_log_t level, void *arg, const char *fmt, va_list args)
{
	struct loader_log *l = (struct loader_log *)arg;

	if (level != CYAML_LOG_ERROR || l->first[0] != '\0')
		return;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
	(void)vsnprintf(l->first, sizeof(l->first), fmt, args); /* libcyaml's own format strings */
#pragma GCC diagnostic pop
	l->first[strcspn(l->first, "\n")] = '\0';
}

struct load {
	const char *file;
	const struct profile_scan *scan;
	struct spec *spec;
	struct err *e;
};

/* Put "FILE:LINE: key" in front of a failure; with the value that was refused. */
static int at_key(struct load *l, int r, enum profile_key k, const char *name, const char *value)
{
	char q[QUOTE_MAX];

	return err_wrap(l->e, r, "%.100s:%d: %s: %s", l->file, l->scan->line[k], name,
			quote(value, q));
}

static int put_text(struct load *l, char **dst, const char *src)
{
	char *copy;

	if (src == NULL)
		return 0;
	copy = strdup(src);
	if (copy == NULL)
		return err_set(l->e, ERR_INTERNAL, ENOMEM, "%.100s: out of memory", l->file);
	free(*dst);
	*dst = copy;
	return 0;
}

static int put_texts(struct load *l, const struct raw *raw)
{
	int r = put_text(l, &l->spec->tier, raw->tier);

	if (r == 0)
		r = put_text(l, &l->spec->image, raw->image);
	if (r == 0)
		r = put_text(l, &l->spec->workdir, raw->workdir);
	if (r == 0)
		r = put_text(l, &l->spec->user, raw->user);
	return r;
}

static int put_sizes(struct load *l, const struct raw *raw)
{
	struct spec *s = l->spec;
	uint64_t v = 0;
	int r;

	if (raw->memory != NULL && (r = units_size(raw->memory, &s->memory, l->e)) < 0)
		return at_key(l, r, PROFILE_MEMORY, "memory", raw->memory);
	if (raw->disk != NULL && (r = units_size(raw->disk, &s->disk, l->e)) < 0)
		return at_key(l, r, PROFILE_DISK, "disk", raw->disk);
	if (raw->cpus != NULL && (r = units_cpus(raw->cpus, &s->cpu_milli, l->e)) < 0)
		return at_key(l, r, PROFILE_CPUS, "cpus", raw->cpus);
	if (raw->timeout != NULL && (r = units_duration(raw->timeout, &s->timeout_ms, l->e)) < 0)
		return at_key(l, r, PROFILE_TIMEOUT, "timeout", raw->timeout);
	if (raw->pids != NULL) {
		if ((r = units_count(raw->pids, UINT32_MAX, &v, l->e)) < 0)
			return at_key(l, r, PROFILE_PIDS, "pids", raw->pids);
		s->pids = (uint32_t)v;
	}
	return 0;
}

static int put_words(struct load *l, const struct raw *raw)
{
	struct spec *s = l->spec;
	int r;

	if (raw->root != NULL && (r = root_mode_parse(raw->root, &s->root, l->e)) < 0)
		return err_wrap(l->e, r, "%.100s:%d: root", l->file, l->scan->line[PROFILE_ROOT]);
	if (raw->root_caps != NULL && (r = root_caps_parse(raw->root_caps, &s->root_caps, l->e)) < 0)
		return err_wrap(l->e, r, "%.100s:%d: root_caps", l->file,
				l->scan->line[PROFILE_ROOT_CAPS]);
	if (raw->sudo != NULL && (r = sudo_use_parse(raw->sudo, &s->sudo, l->e)) < 0)
		return err_wrap(l->e, r, "%.100s:%d: sudo", l->file, l->scan->line[PROFILE_SUDO]);
	for (unsigned int i = 0; i < raw->require_count; i++) {
		uint32_t bit = 0;

		r = require_parse(raw->require[i], strlen(raw->require[i]), &bit, l->e);
		if (r < 0)
			return err_wrap(l->e, r, "%.100s:%d: require", l->file,
					l->scan->line[PROFILE_REQUIRE]);
		s->require |= bit;
	}
	for (uint32_t i = 0; i < l->scan->env.n; i++)
		if (env_put(&s->env, l->scan->env.v[i]) < 0)
			return err_set(l->e, ERR_INTERNAL, ENOMEM, "%.100s: out of memory", l->file);
	return 0;
}

static int put_all(struct load *l, const struct raw *raw)
{
	char q[QUOTE_MAX];
	int r;

	if (raw->version == NULL)
		return err_set(l->e, ERR_INVALID, EINVAL,
			       "%.100s: version is missing: the file needs 'version: 1'", l->file);
	if (strcmp(raw->version, "1") != 0)
		return err_set(l->e, ERR_INVALID, EINVAL,
			       "%.100s:%d: version: %s is not known; this brig reads version 1",
			       l->file, l->scan->line[PROFILE_VERSION], quote(raw->version, q));
	r = put_texts(l, raw);
	if (r == 0)
		r = put_sizes(l, raw);
	if (r == 0)
		r = put_words(l, raw);
	return r;
}

int profile_load(const char *file, const char *text, size_t len, struct spec *s,
		 struct profile *ret, struct err *e)
{
	struct loader_log log = {""};
	const cyaml_config_t config = {
	    .log_fn = on_log,
	    .log_ctx = &log,
	    .mem_fn = cyaml_mem,
	    .log_level = CYAML_LOG_ERROR,
	    .flags = CYAML_CFG_NO_ALIAS,
	};
	struct profile_scan scan = {0};
	struct load l = {.file = file, .scan = &scan, .spec = s, .e = e};
	struct profile p = {.name = NULL};
	struct raw *raw = NULL;
	cyaml_err_t c;
	int r;

	if (len > PROFILE_MAX)
		return err_set(e, ERR_INVALID, EFBIG, "%.100s: larger than %d KiB", file,
			       PROFILE_MAX / 1024);
	r = profile_scan(file, text, len, &scan, e);
	if (r < 0)
		return r;
	c = cyaml_load_data((const uint8_t *)text, len, &config, &raw_schema,
			    (cyaml_data_t **)&raw, NULL);
	if (c != CYAML_OK || raw == NULL)
		r = err_set(e, ERR_INVALID, EINVAL, "%.100s: %s: %s", file, cyaml_strerror(c),
			    log.first);
	else
		r = put_all(&l, raw);
	if (r == 0 && raw != NULL)
		r = put_text(&l, &p.name, raw->name);
	if (raw != NULL)
		(void)cyaml_free(&config, &raw_schema, raw, 0);
	strv_done(&scan.env);
	if (r < 0) {
		yaml_tree_free(scan.egress);
		return r;
	}
	p.egress = scan.egress;
	p.set = scan.set;
	*ret = p;
	return 0;
}

int profile_read(const char *path, struct spec *s, struct profile *ret, struct err *e)
{
	_cleanup_free_ char *text = malloc(PROFILE_MAX + 1);
	_cleanup_close_ int fd = -1;
	char q[QUOTE_MAX];
	size_t n = 0;
	ssize_t got = 1;

	if (text == NULL)
		return err_no_memory(e);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	if (fd < 0)
		return err_set(e, ERR_NOT_FOUND, errno, "profile %s: %s", quote(path, q),
			       strerror(errno));
	while (got > 0 && n < PROFILE_MAX + 1) {
		got = read(fd, text + n, PROFILE_MAX + 1 - n);
		if (got < 0 && errno != EINTR)
			return err_set(e, ERR_INVALID, errno, "profile %s: %s", quote(path, q),
				       strerror(errno));
		if (got > 0)
			n += (size_t)got;
		else if (got < 0)
			got = 1;
	}
	return profile_load(path, text, n, s, ret, e);
}

void profile_done(struct profile *p)
{
	free(p->name);
	yaml_tree_free(p->egress);
	*p = (struct profile){.name = NULL};
}
