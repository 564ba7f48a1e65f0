#include "core/profile.h"
#include "core/yaml_tree.h"
#include "harness/test.h"

#include <stdlib.h>
#include <string.h>

static struct err err;

static int load_n(const char *text, size_t n, struct spec *s, struct profile *p)
{
	spec_init(s);
	*p = (struct profile){.name = NULL};
	err = ERR_INIT;
	return profile_load("p.yaml", text, n, s, p, &err);
}

/* Refused, and the message begins so. */
static int refused(const char *text, const char *says)
{
	struct profile p;
	struct spec s;
	int r = load_n(text, strlen(text), &s, &p);
	int ok = r < 0 && strncmp(err.msg, says, strlen(says)) == 0;

	if (!ok)
		printf("# %s\n# got %d: %s\n", says, r, err.msg);
	spec_done(&s);
	profile_done(&p);
	return ok;
}

TEST(every_key)
{
	static const char text[] = "version: 1\n"
				   "name: all\n"
				   "tier: container\n"
				   "image: /srv/root\n"
				   "memory: 256M\n"
				   "cpus: 0.5\n"
				   "pids: 64\n"
				   "disk: 64M\n"
				   "timeout: 1h30m\n"
				   "env:\n  A: 1\n  B: \"x y\"\n  C:\n"
				   "workdir: /tmp\n"
				   "user: 1000:1000\n"
				   "root: overlay\n"
				   "root_caps: files\n"
				   "sudo: yes\n"
				   "require: [limits, landlock]\n"
				   "egress: []\n";
	struct profile p;
	struct spec s;

	CHECK(load_n(text, sizeof(text) - 1, &s, &p) == 0);
	CHECK(strcmp(p.name, "all") == 0 && strcmp(s.tier, "container") == 0);
	CHECK(strcmp(s.image, "/srv/root") == 0 && s.memory == 256ULL << 20 && s.disk == 64ULL << 20);
	CHECK(s.cpu_milli == 500 && s.pids == 64 && s.timeout_ms == 5400000);
	CHECK(s.env.n == 3 && strcmp(s.env.v[1], "B=x y") == 0 && strcmp(s.env.v[2], "C=") == 0);
	CHECK(strcmp(s.workdir, "/tmp") == 0 && strcmp(s.user, "1000:1000") == 0);
	CHECK(s.root == ROOT_OVERLAY && s.root_caps == ROOT_CAPS_FILES && s.sudo == SUDO_YES);
	CHECK(s.require == (REQ_NEED_LIMITS | REQ_NEED_LANDLOCK));
	CHECK(p.set == (1u << PROFILE_KEY_COUNT) - 1);
	spec_done(&s);
	profile_done(&p);
}

TEST(what_is_not_given_stays)
{
	struct profile p;
	struct spec s;

	CHECK(load_n("version: 1\npids: 9\n", 19, &s, &p) == 0);
	CHECK(s.pids == 9 && s.memory == SPEC_MEMORY_DEFAULT_MIB * 1024ULL * 1024);
	CHECK(profile_has(&p, PROFILE_PIDS) && !profile_has(&p, PROFILE_MEMORY));
	spec_done(&s);
	profile_done(&p);
}

TEST(unknown_keys_have_a_line_and_a_neighbour)
{
	CHECK(refused("version: 1\nmemroy: 1G\n",
		      "p.yaml:2: unknown key 'memroy': did you mean 'memory'?"));
	CHECK(refused("version: 1\n\n\nzzz: 1\n", "p.yaml:4: unknown key 'zzz'"));
}

TEST(repeated_keys)
{
	CHECK(refused("version: 1\npids: 8\npids: 9\n",
		      "p.yaml:3: pids is given twice (first in line 2)"));
	CHECK(refused("version: 1\nenv:\n  A: 1\n  A: 2\n", "p.yaml:4: env: 'A' is given twice"));
}

TEST(wrong_shapes)
{
	CHECK(refused("version: 1\nmemory: [1G]\n", "p.yaml:2: memory: one value"));
	CHECK(refused("version: 1\nmemory: {a: b}\n", "p.yaml:2: memory: one value"));
	CHECK(refused("version: 1\nmemory:\n", "p.yaml:2: memory: the value is missing"));
	CHECK(refused("version: 1\nrequire: limits\n", "p.yaml:2: require: a list"));
	CHECK(refused("version: 1\nrequire: [[limits]]\n", "p.yaml:2: require: a list"));
	CHECK(refused("version: 1\nenv: [A]\n", "p.yaml:2: env: a map"));
	CHECK(refused("version: 1\nenv: {A: [1]}\n", "p.yaml:2: env: the value of 'A'"));
	CHECK(refused("version: 1\nenv: {A: {B: 1}}\n", "p.yaml:2: env: the value of 'A'"));
	CHECK(refused("version: 1\n[a]: 1\n", "p.yaml:2: a key"));
	CHECK(refused("- a\n", "p.yaml:1: a map"));
	CHECK(refused("just text\n", "p.yaml:1: a map"));
	CHECK(refused("", "p.yaml:1: the file is empty"));
	CHECK(refused("# only a comment\n", "p.yaml:1: the file is empty"));
}

TEST(bad_values_have_a_line)
{
	CHECK(refused("version: 1\nmemory: 64Q\n", "p.yaml:2: memory: '64Q': character 3"));
	CHECK(refused("version: 1\ncpus: many\n", "p.yaml:2: cpus: 'many'"));
	CHECK(refused("version: 1\npids: -1\n", "p.yaml:2: pids: '-1'"));
	CHECK(refused("version: 1\ntimeout: soon\n", "p.yaml:2: timeout: 'soon'"));
	CHECK(refused("version: 1\nroot: rw\n", "p.yaml:2: root: 'rw'"));
	CHECK(refused("version: 1\nroot_caps: all\n", "p.yaml:2: root_caps: 'all'"));
	CHECK(refused("version: 1\nsudo: maybe\n", "p.yaml:2: sudo: 'maybe'"));
	CHECK(refused("version: 1\nrequire: [limit]\n", "p.yaml:2: require: unknown word 'limit'"));
}

TEST(version_is_needed)
{
	CHECK(refused("name: x\n", "p.yaml: version is missing"));
	CHECK(refused("version: 2\n", "p.yaml:1: version: '2' is not known"));
	CHECK(refused("version: 01\n", "p.yaml:1: version: '01' is not known"));
}

TEST(egress_is_nothing_or_rules)
{
	struct profile p;
	struct spec s;

	CHECK(load_n("version: 1\negress: deny-all\n", 28, &s, &p) == 0 && p.egress == NULL);
	spec_done(&s);
	profile_done(&p);
	CHECK(load_n("version: 1\negress: {rules: []}\n", 31, &s, &p) == 0 && p.egress != NULL);
	CHECK(strcmp(p.egress->child->key, "rules") == 0 && p.egress->line == 2);
	spec_done(&s);
	profile_done(&p);
	CHECK(refused("version: 1\negress: allow-all\n", "p.yaml:2: egress: deny-all is expected"));
	CHECK(refused("version: 1\negress:\n  - allow: pypi.org\n", "p.yaml:2: egress: deny-all is"));
	CHECK(refused("version: 1\negress: {a: 1, a: 2}\n", "p.yaml:2: a is given twice (first in line 2)"));
	CHECK(refused("version: 1\negress: [[[[[[[[[[\n", "p.yaml:2: egress: deny-all"));
	CHECK(refused("version: 1\negress: {a: [[[[[[[[[[\n", "p.yaml:2: nested deeper than 8"));
	CHECK(refused("version: 1\negress: {a: &b 1}\n", "p.yaml:2: anchors"));
	CHECK(refused("version: 1\negress: {a: 1}\nzzz: 1\n", "p.yaml:3: unknown key 'zzz'"));
}

TEST(bombs_and_tricks)
{
	char big[PROFILE_MAX + 2];
	struct profile p;
	struct spec s;

	CHECK(refused("version: 1\nname: &a x\n", "p.yaml:2: anchors"));
	CHECK(refused("version: 1\nname: *a\n", "p.yaml:2: aliases"));
	CHECK(refused("a: &a [x, x]\nb: &b [*a, *a]\n", "p.yaml:1: unknown key 'a'"));
	CHECK(refused("version: 1\nname: !!binary aGk=\n", "p.yaml:2: tags"));
	CHECK(refused("version: 1\n---\nversion: 1\n", "p.yaml:2: a profile is one document"));
	CHECK(refused("version: 1\nname: \"a\\0b\"\n", "p.yaml:2: a value holds a NUL byte"));
	CHECK(refused("version: 1\nname: [[[[[[[[[[\n", "p.yaml:2: name: one value"));
	CHECK(refused("version: \"1\n", "p.yaml:"));
	CHECK(refused("\tversion: 1\n", "p.yaml:1: not YAML"));
	memset(big, '#', sizeof(big));
	CHECK(load_n(big, sizeof(big), &s, &p) < 0 && strstr(err.msg, "larger than 64 KiB") != NULL);
	spec_done(&s);
}

TEST(foreign_bytes_do_not_reach_the_terminal)
{
	struct profile p;
	struct spec s;
	static const char text[] = "version: 1\n\"\\e[31mx\": 1\n";

	CHECK(load_n(text, sizeof(text) - 1, &s, &p) < 0);
	CHECK(strchr(err.msg, '\033') == NULL);
	spec_done(&s);
}
TEST_MAIN()
