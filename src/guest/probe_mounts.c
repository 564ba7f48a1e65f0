#include "guest/probe.h"

#include "base/num.h"
#include "sys/raw.h"

#include <string.h>
#include <sys/utsname.h>

/*
 * What is the same for every process of the sandbox, as PID 1 reads it: id maps, interfaces,
 * kernel, mounts (proc(5), proc_pid_mountinfo(5)). Names in mountinfo are partly an image's, so
 * they are cut to their room and kept to plain characters.
 */

static bool ends_word(char c) { return c == ' ' || c == '\n' || c == '\0'; }

/* Copy the next word of *at, which ends at a space or the line's end; what is no plain character becomes
 * '_'. */
static void take_word(const char **at, char *dst, size_t size)
{
	const char *from = *at;
	size_t n = 0;

	for (; !ends_word(from[n]); n++) {
		char c = from[n];

		if (n < size - 1)
			dst[n] = c < 0x21 || c > 0x7e || c == '"' || c == '\\' ? '_' : c;
	}
	dst[MIN(n, size - 1)] = '\0';
	if (n >= size && size > 4)
		memcpy(dst + size - 4, "...", 4);
	*at += n;
	*at += **at == ' ';
}

static const char *skip_words(const char *at, int n)
{
	for (; n > 0; n--) {
		while (!ends_word(*at))
			at++;
		at += *at == ' ';
	}
	return at;
}

/* One of the words of `options` that end at commas: its bit, 0 for others. */
static uint32_t option(const char *word, size_t n)
{
	static const struct {
		char name[12];
		uint8_t len;
		uint32_t bit;
	} known[] = {{"ro", 2, PROBE_RDONLY},
		     {"nosuid", 6, PROBE_NOSUID},
		     {"nodev", 5, PROBE_NODEV},
		     {"noexec", 6, PROBE_NOEXEC}};

	for (size_t i = 0; i < ARRAY_LEN(known); i++)
		if (n == known[i].len && memcmp(word, known[i].name, n) == 0)
			return known[i].bit;
	return n > 8 && memcmp(word, "hidepid=", 8) == 0 ? PROBE_HIDEPID : 0;
}

/* All of the words at *at. Moves *at behind them. */
static uint32_t take_options(const char **at)
{
	uint32_t bits = 0;

	while (!ends_word(**at)) {
		const char *word = *at;

		while (!ends_word(**at) && **at != ',')
			(*at)++;
		bits |= option(word, (size_t)(*at - word));
		*at += **at == ',';
	}
	*at += **at == ' ';
	return bits;
}

/* 36 35 98:0 /root /at ro,nosuid shared:1 - type source super-options */
static void take_mount(const char *line, struct probe_mount *m)
{
	const char *at = skip_words(line, 3);
	uint32_t bits;

	take_word(&at, m->root, sizeof(m->root));
	take_word(&at, m->at, sizeof(m->at));
	m->flags = take_options(&at) & ~(uint32_t)PROBE_HIDEPID;
	while (at[0] != '\0' && (at[0] != '-' || at[1] != ' '))
		at = skip_words(at, 1);
	if (*at == '\0')
		return;
	at += 2;
	take_word(&at, m->type, sizeof(m->type));
	at = skip_words(at, 1);
	bits = take_options(&at);
	m->flags |= bits & PROBE_RDONLY;
	if (strcmp(m->type, "proc") == 0)
		m->flags |= bits & PROBE_HIDEPID;
}

/* More mounts than there is room for leave the last entry as "more". */
static void mounts(struct probe *p, const struct probe_view *v)
{
	size_t n = probe_read(v, "mountinfo");

	for (char *line = v->text, *end; (end = strchr(line, '\n')) != NULL; line = end + 1) {
		if (p->mounts == PROBE_MOUNTS_MAX)
			break;
		*end = '\0';
		take_mount(line, &p->mount[p->mounts++]);
	}
	if (p->mounts == PROBE_MOUNTS_MAX || (p->mounts > 0 && n == v->room - 1))
		memcpy(p->mount[p->mounts - 1].at, "more", sizeof("more"));
}

static uint32_t map(const struct probe_view *v, const char *name,
		    struct probe_map m[PROBE_MAPS_MAX])
{
	const char *at = v->text;
	uint32_t n = 0;

	(void)probe_read(v, name);
	while (n < PROBE_MAPS_MAX && *(at += strspn(at, " \n")) != '\0') {
		m[n].inside = (uint32_t)probe_number(&at, 10);
		m[n].outside = (uint32_t)probe_number(&at, 10);
		m[n++].count = (uint32_t)probe_number(&at, 10);
	}
	return n;
}

/* Interfaces, from /proc/self/net/dev: two lines of heading, then "NAME: numbers". */
static void interfaces(struct probe *p, const struct probe_view *v)
{
	char *line = v->text;

	(void)probe_read(v, "net/dev");
	for (int i = 0; line != NULL && *line != '\0' && p->ifs < PROBE_IFS_MAX; i++) {
		char *next = strchr(line, '\n'), *colon = strchr(line, ':');

		if (i >= 2 && colon != NULL) {
			const char *at = line + strspn(line, " ");

			*colon = '\0';
			take_word(&at, p->if_name[p->ifs], sizeof(p->if_name[0]));
			p->ifs++;
		}
		line = next != NULL ? next + 1 : NULL;
	}
}

static void plain(char *dst, size_t size, const char *src) { take_word(&src, dst, size); }

void probe_sandbox(struct probe *p, struct probe_view *v)
{
	struct utsname u = {0};

	p->uid_maps = map(v, "uid_map", p->uid_map);
	p->gid_maps = map(v, "gid_map", p->gid_map);
	p->setgroups_denied = probe_read(v, "setgroups") > 0 && strncmp(v->text, "deny", 4) == 0;
	interfaces(p, v);
	if (raw_call(SYS_uname, (long)&u, 0, 0, 0, 0) == 0) {
		plain(p->release, sizeof(p->release), u.release);
		plain(p->machine, sizeof(p->machine), u.machine);
		plain(p->node, sizeof(p->node), u.nodename);
	}
	plain(p->agent, sizeof(p->agent), BRIG_VERSION);
	/* landlock_create_ruleset(2) with LANDLOCK_CREATE_RULESET_VERSION */
	p->landlock_abi = (uint32_t)MAX(raw_call(SYS_landlock_create_ruleset, 0, 0, 1, 0, 0), 0L);
	mounts(p, v);
}
