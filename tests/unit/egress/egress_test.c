#include "egress/egress.h"
#include "gate/judge.h"
#include "harness/test.h"

#include <stdlib.h>
#include <string.h>

static struct err err;

/* The lines for the gate, without the first; NULL when refused. */
static char *lines_of(const char *yaml, const char *word)
{
	struct egress g;
	char *text = NULL, *rest = NULL;
	int r;

	err = ERR_INIT;
	egress_init(&g);
	r = yaml != NULL ? egress_add_text(&g, "f.yaml", yaml, strlen(yaml), &err) : 0;
	if (r == 0 && word != NULL)
		r = egress_add_word(&g, EGRESS_ALLOW, word, &err);
	if (r == 0)
		r = egress_finish(&g, &text, &err);
	if (r == 0)
		rest = strdup(strchr(text, '\n') + 1);
	free(text);
	egress_done(&g);
	return rest;
}

static int makes(const char *yaml, const char *want)
{
	char *got = lines_of(yaml, NULL);
	int ok = got != NULL && strcmp(got, want) == 0;

	if (!ok)
		printf("# want %s\n# got %s (%s)\n", want, got != NULL ? got : "nothing", err.msg);
	free(got);
	return ok;
}

static int refused(const char *yaml, const char *says)
{
	char *got = lines_of(yaml, NULL);
	int ok = got == NULL && strncmp(err.msg, says, strlen(says)) == 0;

	if (!ok)
		printf("# want %s\n# got %s (%s)\n", says, got != NULL ? got : "nothing", err.msg);
	free(got);
	return ok;
}

#define V "version: 1\n"
#define R V "rules:\n  - "

TEST(every_kind_of_rule)
{
	CHECK(makes(R "{id: a, host: API.github.com., ports: [443, 8000-8099], protocol: tls, ech: allow}\n",
		    "allow api.github.com:443,8000-8099/tls\n+id a\n+ech allow\n"));
	CHECK(makes(R "{cidr: \"2001:db8::/32\", ports: 22, protocol: ssh}\n", "range [2001:db8::/32]:22/ssh\n"));
	CHECK(makes(R "{host: db.corp.example, ports: 5432, allow_addrs: [10.20.0.0/16, \"fd00::/8\"]}\n",
		    "allow db.corp.example:5432@10.20.0.0/16,fd00::/8\n"));
	CHECK(makes(R "{host: \"*.cdn.example\", ports: 443, max_names: 5, max_label: 20, limits: {max_conns: 2, bytes_up: 1M}}\n",
		    "allow *.cdn.example:443\n+names 5\n+label 20\n+limit max_conns 2\n+limit bytes_up 1048576\n"));
	CHECK(makes(R "{host: db, ports: 5432, single_label: true}\n", "single db:5432\n"));
	CHECK(makes(V "deny:\n  - {id: d, host: \"**.evil.example\", ports: 1-65535}\n  - {cidr: 0.0.0.0/0, ports: 25}\n",
		    "deny **.evil.example:1-65535\n+id d\ndeny 0.0.0.0/0:25\n"));
}

TEST(settings)
{
	CHECK(makes(V "default: audit\ndns: {mode: synthetic, ttl_s: 5, aaaa: synthetic, pool4: 100.64.0.0/16, resolver: [9.9.9.9, \"[::1]:53\"]}\n"
		      "limits: {max_conns: 9, bytes_down: 2K, idle_s: 0}\non_deny: {alert_after: 1, kill_task_after: 3}\n",
		    "default audit\ndns ttl_s 5\ndns pool4 100.64.0.0/16\ndns aaaa 1\ndns pinned 0\nresolver 9.9.9.9,[::1]:53\n"
		    "limit max_conns 9\nlimit bytes_down 2048\nlimit idle_s 0\non_deny alert_after 1\nlimit kill_after 3\n"));
	CHECK(makes(V "dns: {mode: pinned}\n", "dns pinned 1\n"));
	CHECK(makes("{\"version\": 1, \"rules\": [{\"host\": \"a.test\", \"ports\": [\"80\"]}]}", "allow a.test:80\n"));
}

TEST(http_and_secrets)
{
	CHECK(makes(R "{host: a.test, ports: 443, tls: inspect, http: {methods: [GET], paths: [/a/**], max_body_bytes: 1K, upgrade: [websocket]},\n"
		      "     inject: [{header: authorization, format: 'Bearer {secret}', secret: 'env:T', redact_response: false}]}\n",
		    "allow a.test:443\n+tls inspect\n+method GET\n+path /a/**\n+body 1024\n+upgrade websocket\n+inject authorization\n"
		    "+format Bearer {secret}\n+secret env:T\n+redact no\n"));
	CHECK(refused(R "{host: a.test, ports: 443, inject: [{header: a, format: '{secret}', secret: 'env:T'}]}\n", "f.yaml:3: inject: needs tls"));
	CHECK(refused(R "{host: a.test, ports: 443, tls: inspect, inject: [{header: host, format: '{secret}', secret: 'env:T'}]}\n",
		      "f.yaml:3: header: host is the connection's"));
	CHECK(refused(R "{host: a.test, ports: 443, tls: inspect, inject: [{header: a, format: 'x', secret: 'env:T'}]}\n", "f.yaml:3: format: must hold"));
	CHECK(refused(R "{host: a.test, ports: 443, tls: inspect, inject: [{header: a, format: '{secret}', secret: 'hunter2'}]}\n", "f.yaml:3: secret: where"));
	CHECK(refused(R "{host: a.test, ports: 22, http: {methods: [GET]}}\n", "f.yaml:3: http: needs protocol"));
	CHECK(refused(R "{host: a.test, ports: 80, http: {methods: [get]}}\n", "f.yaml:3: methods: capital"));
	CHECK(refused(R "{host: a.test, ports: 80, http: {paths: [a]}}\n", "f.yaml:3: +path a"));
	CHECK(refused(V "default: audit\nrules: [{host: a.test, ports: 443, tls: inspect, inject: [{header: a, format: '{secret}', secret: 'e:T'}]}]\n",
		      "default audit and inject"));
}

TEST(wrong_files_say_where)
{
	CHECK(refused("rules: []\n", "f.yaml: version is missing"));
	CHECK(refused("version: 2\n", "f.yaml:1: version: '2': a number from 1 to 1"));
	CHECK(refused(V "ruels: []\n", "f.yaml:2: unknown key 'ruels': did you mean 'rules'?"));
	CHECK(refused(V "limits: {max_cons: 1}\n", "f.yaml:2: unknown key 'max_cons': did you mean 'max_conns'?"));
	CHECK(refused(V "limits: {max_conns: 1, max_conns: 2}\n", "f.yaml:2: max_conns is given twice"));
	CHECK(refused(V "limits: {max_conns: \"1\"}\n", "f.yaml:2: max_conns: a number without"));
	CHECK(refused(V "limits: {max_conns: 0}\n", "f.yaml:2: max_conns: '0': a number from 1"));
	CHECK(refused(V "limits: {bytes_up: 5Q}\n", "f.yaml:2: bytes_up: '5Q'"));
	CHECK(refused(V "limits: []\n", "f.yaml:2: limits: a map"));
	CHECK(refused(V "rules: {host: a.test}\n", "f.yaml:2: rules: a list of maps"));
	CHECK(refused(V "rules: [a.test]\n", "f.yaml:2: rules: a map"));
	CHECK(refused(V "default: allow\n", "f.yaml:2: default: 'allow': one of these"));
	CHECK(refused(R "{host: a.test}\n", "f.yaml:3: a rule needs ports"));
	CHECK(refused(R "{ports: 443}\n", "f.yaml:3: a rule needs either host or cidr"));
	CHECK(refused(R "{host: a.test, cidr: 10.0.0.0/8, ports: 1}\n", "f.yaml:3: a rule needs either"));
	CHECK(refused(R "{host: a.test, ports: 70000}\n", "f.yaml:3: 'a.test:70000': ports are numbers"));
	CHECK(refused(R "{host: a.test, ports: [\"1 2\"]}\n", "f.yaml:3: ports: '1 2' is not understood"));
	CHECK(refused(R "{host: \"a.test:80\", ports: 80}\n", "f.yaml:3: host: a name is expected"));
	CHECK(refused(R "{host: 10.0.0.1, ports: 80}\n", "f.yaml:3: 10.0.0.1:80: an address range"));
	CHECK(refused(R "{host: a.test, ports: 80, single_label: yes}\n", "f.yaml:3: single_label: true or false"));
	CHECK(refused(R "{cidr: 10.0.0.0/8, ports: 80, tls: opaque}\n", "f.yaml:3: tls: is for rules with host"));
	CHECK(refused(R "{host: a.test, ports: 22, tls: opaque}\n", "f.yaml:3: tls: needs protocol: tls"));
	CHECK(refused(R "{id: x, host: a.test, ports: 1}\n  - {id: x, host: b.test, ports: 1}\n", "f.yaml:4: id: 'x' is given twice"));
	CHECK(refused(R "{id: 1x, host: a.test, ports: 1}\n", "f.yaml:3: id: letters"));
	CHECK(refused(R "{host: a.test, ports: 1}\n  - {host: a.test, ports: 1, allow_addrs: [10.0.0.1/8]}\n", "f.yaml:4: "));
	CHECK(refused(V "dns: {resolver: [dns.example]}\n", "f.yaml:2: resolver: IP"));
	CHECK(refused(V "dns: {pool4: 8.0.0.0/8}\n", "f.yaml:2: pool4 8.0.0.0/8: not a setting"));
	CHECK(refused(V "dns: {mode: pin}\n", "f.yaml:2: mode: 'pin'"));
	CHECK(refused(R "&a {host: a.test, ports: 1}\n", "f.yaml:3: anchors"));
}

TEST(names_in_other_scripts)
{
	CHECK(makes(R "{host: B\xc3\xbc" "cher.example, ports: 443}\n", "allow xn--bcher-kva.example:443\n"));
	CHECK(makes(R "{host: \"*.\xd0\xbf\xd1\x80.example\", ports: 443}\n", "allow *.xn--o1ac.example:443\n"));
	CHECK(refused(R "{host: xn--a.example, ports: 443}\n", "f.yaml:3: host: 'xn--a.example' is no host name"));
	CHECK(refused(R "{host: \"a\\u200b.example\", ports: 443}\n", "f.yaml:3: host: "));
	CHECK(refused(R "{host: \"a\\u3002b.example\", ports: 443}\n", "f.yaml:3: host: "));
	CHECK(refused(R "{host: \"a b.example\", ports: 443}\n", "f.yaml:3: host: "));
	CHECK(refused(R "{host: \"a\\0b.example\", ports: 443}\n", "f.yaml:3: a value holds a NUL"));
	CHECK(refused(R "{host: \"a\\n.example\", ports: 443}\n", "f.yaml:3: host: only printable"));
}

TEST(public_suffixes)
{
	static const char *const suffix[] = {"*.com", "**.co.uk", "*.github.io", "*.s3.amazonaws.com"};

	for (size_t i = 0; i < sizeof(suffix) / sizeof(suffix[0]); i++) {
		char yaml[128], word[64];
		char *got;

		(void)snprintf(yaml, sizeof(yaml), R "{host: \"%s\", ports: 443}\n", suffix[i]);
		CHECK(refused(yaml, "f.yaml:3: host: "));
		(void)snprintf(word, sizeof(word), "%s:443", suffix[i]);
		got = lines_of(NULL, word);
		CHECK(got == NULL && strncmp(err.msg, "--allow: ", 9) == 0);
	}
	CHECK(makes(R "{host: \"*.github.io\", ports: 443, unsafe_public_suffix: true}\n", "allow *.github.io:443\n"));
	CHECK(makes(R "{host: \"**.com\", ports: 443, unsafe_public_suffix: true}\n", "single **.com:443\n"));
	CHECK(makes(R "{host: \"*.example.com\", ports: 443}\n", "allow *.example.com:443\n"));
}

TEST(words_add_to_files)
{
	char *got = lines_of(R "{host: a.test, ports: 80}\n", "B\xc3\xbc" "cher.example:443@10.0.0.0/8");

	CHECK(got != NULL && strcmp(got, "allow a.test:80\nallow xn--bcher-kva.example:443@10.0.0.0/8\n") == 0);
	free(got);
	CHECK(lines_of(NULL, "a.test") == NULL && lines_of(NULL, "a.test:80 x") == NULL && lines_of(NULL, "localhost:80") == NULL);
}

TEST(the_digest_is_of_the_rules)
{
	struct egress g;
	struct judge *j = NULL;
	char *text = NULL;

	egress_init(&g);
	CHECK(egress_add_word(&g, EGRESS_DENY, "localhost:1-65535", &err) == 0 && egress_finish(&g, &text, &err) == 0);
	/* sha256 of "deny localhost:1-65535\n" */
	CHECK(strncmp(text, "policy ", 7) == 0 && strlen(strchr(text, ' ') + 1) == 64 + 1 + 23);
	CHECK(judge_new(text, strlen(text), &j, &err) == 0);
	judge_free(j);
	free(text);
	egress_done(&g);
}
TEST_MAIN()
