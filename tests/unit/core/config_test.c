#include "core/config.h"
#include "harness/test.h"

#include <stdio.h>
#include <string.h>

static struct config c;
static struct err err;

static int load(const char *text)
{
	err = ERR_INIT;
	return config_load("d.yaml", text, strlen(text), &c, &err);
}

/* Refused, and the message begins so. */
static int refused(const char *text, const char *says)
{
	int r = load(text);
	int ok = r < 0 && strncmp(err.msg, says, strlen(says)) == 0;

	if (!ok)
		printf("# %s\n# got %d: %s\n", says, r, err.msg);
	if (r == 0)
		config_done(&c);
	return ok;
}

TEST(every_key)
{
	CHECK(load("version: 1\n"
		   "listen: '[::1]:8080'\n"
		   "tls: {cert: /c.pem, key: /k.pem}\n"
		   "domain: box.example.org\n"
		   "state: /s\n"
		   "spawn: /p.sock\n"
		   "user: brigd\n"
		   "max_sandboxes: 7\n"
		   "default_timeout: 90s\n"
		   "max_timeout: 2h\n"
		   "tenants: {acme: {max_sandboxes: 3, max_memory: 4G}, '*': {max_sandboxes: 1}}\n"
		   "templates:\n"
		   "  base: {}\n"
		   "  code-interpreter-v1:\n"
		   "    profile: /etc/brig/code.yaml\n"
		   "    image: code-interpreter-v1\n"
		   "    pool: 3\n"
		   "    alias: [code, team/code]\n"
		   "    code: true\n"
		   "    egress: any\n") == 0);
	CHECK(strcmp(c.listen, "[::1]:8080") == 0 && strcmp(c.tls_cert, "/c.pem") == 0 && strcmp(c.tls_key, "/k.pem") == 0);
	CHECK(strcmp(c.domain, "box.example.org") == 0 && strcmp(c.state, "/s") == 0 && strcmp(c.spawn, "/p.sock") == 0);
	CHECK(strcmp(c.user, "brigd") == 0 && c.max_sandboxes == 7);
	CHECK(c.default_timeout_ms == 90000 && c.max_timeout_ms == 7200000 && c.templates_n == 2);
	CHECK(strcmp(c.templates[1].profile, "/etc/brig/code.yaml") == 0 && c.templates[1].pool == 3);
	CHECK(c.templates[1].code && c.templates[1].any_egress && !c.templates[0].code && !c.templates[0].any_egress);
	CHECK(config_template(&c, "team/code") == &c.templates[1] && config_template(&c, "base") == &c.templates[0]);
	CHECK(config_template(&c, "bas") == NULL);
	CHECK(config_tenant(&c, "acme")->max_sandboxes == 3 && config_tenant(&c, "acme")->max_memory == UINT64_C(4) << 30);
	CHECK(config_tenant(&c, "other")->max_sandboxes == 1 && config_tenant(&c, "other")->max_memory == 0);
	config_done(&c);
}

TEST(defaults)
{
	CHECK(load("version: 1\ntemplates: {base: {}}\n") == 0);
	CHECK(strcmp(c.listen, "127.0.0.1:7080") == 0 && strcmp(c.spawn, "/run/brig/spawn.sock") == 0);
	CHECK(c.user == NULL && c.tls_cert == NULL && c.max_sandboxes == 256 && c.default_timeout_ms == 300000);
	config_done(&c);
	CHECK(config_dev("/s", "/p", &c, &err) == 0);
	CHECK(config_tenant(&c, "acme") == NULL);
	CHECK(config_template(&c, "base") != NULL && config_template(&c, "code-interpreter-v1")->code);
	CHECK(c.templates[0].image_or_host && strcmp(c.state, "/s") == 0 && strcmp(c.spawn, "/p") == 0);
	config_done(&c);
}

TEST(what_is_missing_or_too_much)
{
	CHECK(refused("", "d.yaml:1: the file is empty"));
	CHECK(refused("templates: {a: {}}\n", "d.yaml:1: version is missing"));
	CHECK(refused("version: 1\n", "d.yaml:1: templates is missing"));
	CHECK(refused("version: 2\ntemplates: {a: {}}\n", "d.yaml:1: version: '2' cannot stand here"));
	CHECK(refused("version: 1\ntemplates: {}\n", "d.yaml:2: templates: a map"));
	CHECK(refused("version: 1\ntemplates: {a: }\n", "d.yaml:2: templates: a: a map"));
	CHECK(refused("version: 1\nversion: 1\n", "d.yaml:2: version is given twice (first in line 1)"));
	CHECK(refused("version: 1\nlisten_on: x\n", "d.yaml:2: unknown key 'listen_on'"));
	CHECK(refused("version: 1\nlistn: x\n", "d.yaml:2: unknown key 'listn': did you mean 'listen'?"));
	CHECK(refused("version: 1\ntls: {cert: /c}\n", "d.yaml:2: tls: both cert and key"));
	CHECK(refused("version: 1\ntls: /c\n", "d.yaml:2: tls: a map"));
	CHECK(refused("version: 1\ntemplates:\n  a: {}\n  a: {}\n", "d.yaml:4: a is given twice"));
	CHECK(refused("version: 1\ntemplates:\n  a: {}\n  b: {alias: [a]}\n", "d.yaml:4: alias: 'a' names a template"));
	CHECK(refused("version: 1\ntemplates:\n  a: {alias: [b]}\n  b: {}\n", "d.yaml:4: templates: 'b' is an alias"));
	CHECK(refused("version: 1\ntemplates:\n  a: {pol: 1}\n", "d.yaml:3: unknown key 'pol': did you mean 'pool'?"));
	CHECK(refused("version: 1\ndefault_timeout: 2h\nmax_timeout: 1h\ntemplates: {a: {}}\n",
		      "d.yaml:2: default_timeout is longer"));
	CHECK(refused("version: 1\nmax_timeout: 1m\ntemplates: {a: {}}\n", "d.yaml:2: default_timeout is longer"));
	CHECK(refused("version: 1\n--- \nx: y\n", "d.yaml:2: a configuration is one document"));
	CHECK(refused("version: &x 1\n", "d.yaml:1: anchors"));
}

TEST(wrong_values)
{
	static const char *const lines[] = {
	    "listen: 80", "listen: ':80'", "listen: 127.0.0.1:65536", "listen: 'a b:80'", "listen: unix:x", "listen: '[]:80'",
	    "listen: '[::1:80'", "listen: localhost:80", "listen: [a]", "domain: ''", "domain: -x", "domain: a..b",
	    "domain: 'a b'", "domain: A", "state: rel", "state: /", "state: ''", "spawn: x", "user: 'a b'", "user: ''",
	    "user: '-1'", "max_sandboxes: 0", "max_sandboxes: 4097", "max_sandboxes: -1", "default_timeout: 0",
	    "default_timeout: 999ms", "max_timeout: 367d", "max_timeout: 1x", "tenants: {}", "tenants: [a]", "tenants: {a: {}}", "tenants: {'a b': {max_sandboxes: 1}}", "tenants: {a: {max_sandboxes: 0}}",
	    "tenants: {a: {max_memory: 1K}}", "tenants: {a: {memory: 1G}}", "templates: [a]", "templates: {'a b': {}}",
	    "templates: {-a: {}}", "templates: {/a: {}}", "templates: {a: {profile: p.yaml}}", "templates: {a: {pool: 257}}",
	    "templates: {a: {alias: b}}", "templates: {a: {alias: ['b c']}}", "templates: {a: {code: 'true'}}",
	    "templates: {a: {code: yes}}", "templates: {a: {egress: none}}", "templates: {a: {image: '-x'}}",
	    "templates: {a: {image: [x]}}"};

	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		char text[128];

		(void)snprintf(text, sizeof(text), "version: 1\n%s\n", lines[i]);
		CHECK(refused(text, "d.yaml:2: "));
	}
}

TEST_MAIN()
