#include "core/spec.h"
/*
 * Defaults and checks of a sandbox's settings. The values come from profiles and command lines; this
 * is the last look at them before a tier is chosen, so everything that is wrong on every tier is
 * refused here, with the setting's name in front of the message.
 */
#include "base/num.h"
#include "base/quote.h"
#include "base/units.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#define MIB (1024ULL * 1024)

enum {
	CPU_MILLI_MIN = 10,
	CPU_MILLI_MAX = 4096 * 1000,
	PIDS_MIN = 4, /* the agent, a file helper and a command with one child */
	PIDS_MAX = 4194304, /* PID_MAX_LIMIT of the kernel */
	INODES_MIN = 64,
	INODES_MAX = 100000000,
	WORDS_MAX = 4095, /* longest path */
	ENV_ONE_MAX = 131071, /* MAX_ARG_STRLEN - 1 */
	ENV_COUNT_MAX = 4096,
};
#define DISK_MIN   (1 * MIB)
#define SIZE_MAX_B (1ULL << 50) /* 1 PiB: sums of two sizes never wrap */

void spec_init(struct spec *s)
{
	*s = (struct spec){
	    .memory = SPEC_MEMORY_DEFAULT_MIB * MIB,
	    .disk = SPEC_DISK_DEFAULT_MIB * MIB,
	    .inodes = SPEC_INODES_DEFAULT,
	    .pids = SPEC_PIDS_DEFAULT,
	    .root = ROOT_READONLY,
	    .root_caps = ROOT_CAPS_NONE,
	};
}

void spec_done(struct spec *s)
{
	free(s->tier);
	free(s->image);
	free(s->image_digest);
	free(s->image_user);
	if (s->image_held)
		(void)close(s->image_fd);
	free(s->user);
	free(s->workdir);
	free(s->hostname);
	free(s->task);
	free(s->see);
	free(s->egress);
	strv_done(&s->hosts);
	strv_done(&s->env);
	memset(s, 0, sizeof(*s));
}

void spec_new_id(struct spec *s)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyz012345"; /* 32: five bits, no bias */
	uint8_t raw[20];

	while (getrandom(raw, sizeof(raw), 0) != (ssize_t)sizeof(raw))
		; /* interrupted by a signal before the pool was ready */
	for (size_t i = 0; i < sizeof(raw); i++)
		s->id[i] = letters[raw[i] & 31];
	s->id[sizeof(raw)] = '\0';
}

static bool is_alnum(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

/* NAME or UID[:GID]: what the agent understands. */
static bool user_ok(const char *u)
{
	size_t n = strlen(u);
	bool number = n > 0 && u[0] >= '0' && u[0] <= '9';

	if (n == 0 || n > 256 || u[0] == '-')
		return false;
	for (size_t i = 0; i < n; i++) {
		if (number && u[i] == ':' && i + 1 < n && strchr(u + i + 1, ':') == NULL)
			continue;
		if (number ? !(u[i] >= '0' && u[i] <= '9')
			   : !is_alnum(u[i]) && strchr("._-", u[i]) == NULL)
			return false;
	}
	return true;
}

/* It stands in lines of text and in JSON, and is the same in both. */
static bool task_ok(const char *t)
{
	size_t n = strlen(t);

	for (size_t i = 0; i < n; i++)
		if (t[i] <= 0x20 || t[i] >= 0x7f || t[i] == '"' || t[i] == '\\')
			return false;
	return n > 0 && n <= SPEC_TASK_MAX;
}

static bool hostname_ok(const char *h)
{
	size_t n = strlen(h);

	if (n == 0 || n > 64 || h[0] == '-' || h[0] == '.')
		return false;
	for (size_t i = 0; i < n; i++)
		if (!is_alnum(h[i]) && h[i] != '-' && h[i] != '.')
			return false;
	return true;
}

static bool env_ok(const char *kv)
{
	const char *eq = strchr(kv, '=');

	if (eq == NULL || eq == kv || (kv[0] >= '0' && kv[0] <= '9') || strlen(kv) > ENV_ONE_MAX)
		return false;
	for (const char *c = kv; c < eq; c++)
		if (!is_alnum(*c) && *c != '_')
			return false;
	return true;
}

static int check_words(const struct spec *s, struct err *e)
{
	char q[QUOTE_MAX];

	if (s->tier == NULL || s->tier[0] == '\0')
		return err_set(e, ERR_INVALID, EINVAL, "tier: none given");
	if (strcmp(s->tier, "auto") == 0)
		return err_set(e, ERR_UNSUPPORTED, EINVAL,
			       "tier: 'auto' is not part of this version; name a tier");
	if (s->image == NULL)
		return err_set(e, ERR_INVALID, EINVAL, "image: none given");
	if (strcmp(s->image, "host") != 0 && s->image[0] != '/')
		return err_set(e, ERR_INVALID, EINVAL,
			       "image: %s is neither 'host' nor an absolute path",
			       quote(s->image, q));
	if (strlen(s->image) > WORDS_MAX)
		return err_set(e, ERR_INVALID, ENAMETOOLONG, "image: longer than %d bytes",
			       WORDS_MAX);
	if (s->user != NULL && !user_ok(s->user))
		return err_set(e, ERR_INVALID, EINVAL, "user: %s is neither a name nor UID[:GID]",
			       quote(s->user, q));
	if (s->workdir != NULL && (s->workdir[0] != '/' || strlen(s->workdir) > WORDS_MAX))
		return err_set(e, ERR_INVALID, EINVAL,
			       "workdir: %s is not an absolute path of at most %d bytes",
			       quote(s->workdir, q), WORDS_MAX);
	if (s->task != NULL && !task_ok(s->task))
		return err_set(e, ERR_INVALID, EINVAL,
			       "task: %s is not 1 to %d printable characters without spaces, quotes and backslashes",
			       quote(s->task, q), SPEC_TASK_MAX);
	if (s->hostname != NULL && !hostname_ok(s->hostname))
		return err_set(e, ERR_INVALID, EINVAL,
			       "hostname: %s is not 1 to 64 letters, digits, dots and hyphens",
			       quote(s->hostname, q));
	if (s->env.n > ENV_COUNT_MAX)
		return err_set(e, ERR_INVALID, E2BIG, "env: more than %d variables", ENV_COUNT_MAX);
	for (uint32_t i = 0; i < s->env.n; i++) {
		const char *kv = s->env.v[i];

		if (!env_ok(kv)) /* the value may be a secret: show the name alone */
			return err_set(e, ERR_INVALID, EINVAL,
				       "env: %s is not a NAME=VALUE with a NAME of letters, digits "
				       "and _ and at most %d bytes",
				       quote_n(kv, strcspn(kv, "="), q), ENV_ONE_MAX);
	}
	return 0;
}

static int check_sizes(const struct spec *s, struct err *e)
{
	char a[UNITS_TEXT], b[UNITS_TEXT], c[UNITS_TEXT];
	const uint64_t slack = SPEC_MEMORY_SLACK_MIB * MIB;

	if (s->disk < DISK_MIN || s->disk > SIZE_MAX_B)
		return err_set(e, ERR_INVALID, ERANGE, "disk: %s is not between %s and %s",
			       units_size_text(s->disk, a), units_size_text(DISK_MIN, b),
			       units_size_text(SIZE_MAX_B, c));
	if (s->memory != 0 && (s->memory < slack + DISK_MIN || s->memory > SIZE_MAX_B))
		return err_set(e, ERR_INVALID, ERANGE,
			       "memory: %s is not 0 (no limit) or between %s and %s",
			       units_size_text(s->memory, a), units_size_text(slack + DISK_MIN, b),
			       units_size_text(SIZE_MAX_B, c));
	if (s->memory != 0 && s->disk > s->memory - slack)
		return err_set(e, ERR_INVALID, ERANGE,
			       "disk: %s and %s for the processes do not fit into memory: %s; "
			       "writable places are in memory",
			       units_size_text(s->disk, a), units_size_text(slack, b),
			       units_size_text(s->memory, c));
	return 0;
}

int spec_check(const struct spec *s, struct err *e)
{
	int r = check_words(s, e);

	if (r == 0)
		r = check_sizes(s, e);
	if (r < 0)
		return r;
	if (s->inodes < INODES_MIN || s->inodes > INODES_MAX)
		return err_set(e, ERR_INVALID, ERANGE, "inodes: %" PRIu64 " is not between %d and %d",
			       s->inodes, INODES_MIN, INODES_MAX);
	if (s->cpu_milli != 0 && (s->cpu_milli < CPU_MILLI_MIN || s->cpu_milli > CPU_MILLI_MAX))
		return err_set(e, ERR_INVALID, ERANGE,
			       "cpus: %u.%03u is not 0 (no limit) or between 0.01 and %d",
			       s->cpu_milli / 1000, s->cpu_milli % 1000, CPU_MILLI_MAX / 1000);
	if (s->pids != 0 && (s->pids < PIDS_MIN || s->pids > PIDS_MAX))
		return err_set(e, ERR_INVALID, ERANGE,
			       "pids: %u is not 0 (no limit) or between %d and %d", s->pids,
			       PIDS_MIN, PIDS_MAX);
	if (s->timeout_ms > SPEC_TIMEOUT_MAX_MS)
		return err_set(e, ERR_INVALID, ERANGE, "timeout: longer than %d days",
			       (int)(SPEC_TIMEOUT_MAX_MS / 86400000));
	return 0;
}

void spec_fit_disk(struct spec *s)
{
	const uint64_t slack = SPEC_MEMORY_SLACK_MIB * MIB;

	if (s->memory > slack && s->disk > s->memory - slack)
		s->disk = s->memory - slack;
}

int strv_add(struct strv *v, const char *s)
{
	char **grown = realloc(v->v, ((size_t)v->n + 2) * sizeof(*grown));

	if (grown == NULL)
		return -ENOMEM;
	v->v = grown;
	v->v[v->n] = strdup(s);
	if (v->v[v->n] == NULL)
		return -ENOMEM;
	v->v[++v->n] = NULL;
	return 0;
}

void strv_done(struct strv *v)
{
	for (uint32_t i = 0; i < v->n; i++)
		free(v->v[i]);
	free(v->v);
	*v = (struct strv){NULL, 0};
}
