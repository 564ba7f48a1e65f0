#include "egress/priv.h"
/* One rule of a file: what its keys must be together, and its lines for the gate. Each key by itself was checked. */
#include "base/cleanup.h"
#include "base/quote.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SAY(l, n, ...) yaml_refuse((l)->file, (n)->line, (l)->e, __VA_ARGS__)

static bool is_true(const struct yaml_node *rule, const char *key)
{
	const struct yaml_node *n = yaml_get(rule, key);

	return n != NULL && strcmp(n->text, "true") == 0;
}

static const char *word_of(const struct yaml_node *rule, const char *key)
{
	const struct yaml_node *n = yaml_get(rule, key);

	return n != NULL && n->kind == YAML_WORD ? n->text : "";
}

/* Words with commas between; only of `chars`, since they become part of a line. */
static int join(struct egress_load *l, const struct yaml_node *n, const char *chars, struct buf *out)
{
	const struct yaml_node *c = n->kind == YAML_LIST ? n->child : n;
	char q[QUOTE_MAX];

	for (bool first = true; c != NULL; c = n->kind == YAML_LIST ? c->next : NULL, first = false) {
		if (c->text[strspn(c->text, chars)] != '\0')
			return SAY(l, c, "%s: %s is not understood", n->key, quote(c->text, q));
		if ((!first && buf_put(out, ",", 1) < 0) || buf_put(out, c->text, strlen(c->text)) < 0)
			return SAY(l, c, "%s: too long", n->key);
	}
	return buf_put(out, "", 1) < 0 ? SAY(l, n, "%s: too long", n->key) : 0;
}

/* A protocol by its word, or by its port alone. */
static bool is_protocol(const struct yaml_node *rule, const char *name, const char *port)
{
	const char *protocol = word_of(rule, "protocol");
	const struct yaml_node *p = yaml_get(rule, "ports");
	const struct yaml_node *one = p->kind == YAML_LIST ? p->child : p;

	if (protocol[0] != '\0')
		return strcmp(protocol, name) == 0;
	return strcmp(one->text, port) == 0 && (one == p || one->next == NULL);
}

static bool is_tls(const struct yaml_node *rule) { return is_protocol(rule, "tls", "443"); }
static bool is_http(const struct yaml_node *rule) { return is_protocol(rule, "http", "80"); }

static int check_id(struct egress_load *l, const struct yaml_node *rule)
{
	const struct yaml_node *id = yaml_get(rule, "id");
	const char *chars = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";

	if (id == NULL)
		return 0;
	if (id->text[strspn(id->text, chars)] != '\0' || (id->text[0] >= '0' && id->text[0] <= '9'))
		return SAY(l, id, "id: letters, digits, '.', '_' and '-' are expected, and no digit first");
	return 0;
}

static int check_inject(struct egress_load *l, const struct yaml_node *rule, const struct yaml_node *inject)
{
	static const char *const never[] = {"host", "content-length", "transfer-encoding", "connection", "upgrade",
					    "te", "trailer", "expect", "proxy-connection", "keep-alive"};
	const char *token = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789!#$%&'*+-.^_`|~";

	if (!is_true(rule, "plaintext_inject") && strcmp(word_of(rule, "tls"), "inspect") != 0)
		return SAY(l, inject, "inject: needs tls: inspect (or plaintext_inject: true with allow_addrs)");
	for (const struct yaml_node *i = inject->child; i != NULL; i = i->next) {
		const char *header = word_of(i, "header"), *format = word_of(i, "format"), *at = strstr(format, "{secret}");
		const char *secret = word_of(i, "secret"), *colon = strchr(secret, ':');

		if (header[0] == '\0' || format[0] == '\0' || secret[0] == '\0')
			return SAY(l, i, "inject: header, format and secret are needed");
		if (header[strspn(header, token)] != '\0')
			return SAY(l, i, "header: not a name a field can have");
		for (size_t k = 0; k < sizeof(never) / sizeof(never[0]); k++)
			if (strcasecmp(header, never[k]) == 0)
				return SAY(l, i, "header: %s is the connection's, not to be injected", never[k]);
		if (at == NULL || strstr(at + 1, "{secret}") != NULL)
			return SAY(l, i, "format: must hold {secret} once, such as 'Bearer {secret}'");
		if (colon == NULL || colon == secret || colon[1] == '\0')
			return SAY(l, i, "secret: where it is found is expected, such as env:NAME or file:/PATH, never itself");
	}
	return 0;
}

static int check_together(struct egress_load *l, const struct yaml_node *rule)
{
	static const char *const of_names[] = {"allow_addrs", "tls", "ech", "max_names", "max_label", "single_label",
					       "unsafe_public_suffix", "http", "inject", "plaintext_inject"};
	const struct yaml_node *tls = yaml_get(rule, "tls"), *ech = yaml_get(rule, "ech"), *http = yaml_get(rule, "http");
	const struct yaml_node *inject = yaml_get(rule, "inject"), *plain = yaml_get(rule, "plaintext_inject");
	bool ranged = yaml_get(rule, "cidr") != NULL, inspect = strcmp(word_of(rule, "tls"), "inspect") == 0;

	for (size_t i = 0; ranged && i < sizeof(of_names) / sizeof(of_names[0]); i++)
		if (yaml_get(rule, of_names[i]) != NULL)
			return SAY(l, yaml_get(rule, of_names[i]), "%s: is for rules with host, not with cidr", of_names[i]);
	if (tls != NULL && !is_tls(rule))
		return SAY(l, tls, "tls: needs protocol: tls");
	if (ech != NULL && !is_tls(rule))
		return SAY(l, ech, "ech: needs protocol: tls");
	if (ech != NULL && inspect)
		return SAY(l, ech, "ech: means nothing with tls: inspect, where the gate itself is the server");
	if (http != NULL && !inspect && !is_http(rule))
		return SAY(l, http, "http: needs protocol: http, or tls: inspect");
	if (plain != NULL && strcmp(plain->text, "true") == 0 && (yaml_get(rule, "allow_addrs") == NULL || !is_http(rule)))
		return SAY(l, plain, "plaintext_inject: needs protocol: http and allow_addrs, the private network it stays in");
	return inject != NULL ? check_inject(l, rule, inject) : 0;
}

static int lower_list(struct egress_load *l, const struct yaml_node *http)
{
	const char *token = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789!#$%&'*+-.^_`|~";
	static const char *const lists[] = {"methods", "upgrade"};

	for (size_t i = 0; i < 2; i++) {
		const struct yaml_node *n = yaml_get(http, lists[i]);

		for (const struct yaml_node *c = n != NULL ? n->child : NULL; c != NULL; c = c->next) {
			if (c->text[strspn(c->text, token)] != '\0' || strlen(c->text) >= HTTP_WORD_MAX)
				return SAY(l, c, "%s: a word of at most %d letters is expected", lists[i], HTTP_WORD_MAX - 1);
			for (const char *p = c->text; *p != '\0'; p++)
				if (i == 0 ? *p >= 'a' && *p <= 'z' : *p >= 'A' && *p <= 'Z')
					return SAY(l, c, "%s: %s letters are expected", lists[i], i == 0 ? "capital" : "small");
		}
	}
	return 0;
}

static int emit_parts(struct egress_load *l, const struct yaml_node *rule)
{
	const struct yaml_node *http = yaml_get(rule, "http"), *inject = yaml_get(rule, "inject");
	const struct yaml_node *limits = yaml_get(rule, "limits");
	int r = http != NULL ? lower_list(l, http) : 0;

	if (r == 0 && http != NULL)
		r = emit_section(l, SECTION_HTTP, http);
	for (const struct yaml_node *i = inject != NULL ? inject->child : NULL; r == 0 && i != NULL; i = i->next)
		r = emit_section(l, SECTION_INJECT, i);
	if (r == 0 && limits != NULL)
		r = emit_section(l, SECTION_RLIMITS, limits);
	return r;
}

/* Its first line: who (a name, or `ranged`: addresses) and which ports. */
static int emit_head(struct egress_load *l, enum egress_section s, const struct yaml_node *rule,
		     const struct yaml_node *who, bool ranged)
{
	const struct yaml_node *addrs = yaml_get(rule, "allow_addrs");
	const char *protocol = word_of(rule, "protocol"), *verb = s == SECTION_DENY ? "deny" : ranged ? "range" : "allow";
	bool deny = s == SECTION_DENY, single = false, six = ranged && strchr(who->text, ':') != NULL;
	_cleanup_free_ char *name = NULL;
	struct buf ports, nets;
	int r = 0;

	buf_init(&ports, 1024);
	buf_init(&nets, 2048);
	if (!ranged) {
		r = host_read(who->text, deny || is_true(rule, "single_label"), deny || is_true(rule, "unsafe_public_suffix"),
			      &name, &single, l->e);
		if (r < 0)
			(void)err_wrap(l->e, r, "%.100s:%d: host", l->file, who->line);
		else if (strpbrk(name, " :/@[]") != NULL)
			r = SAY(l, who, "host: a name is expected, without port; addresses are given as cidr");
	} else if (who->text[strspn(who->text, "0123456789abcdefABCDEF.:/")] != '\0') {
		r = SAY(l, who, "cidr: an address range is expected, such as 203.0.113.0/24");
	}
	if (r == 0)
		r = join(l, yaml_get(rule, "ports"), "0123456789-", &ports);
	if (r == 0 && addrs != NULL)
		r = join(l, addrs, "0123456789abcdefABCDEF.:/", &nets);
	if (r == 0)
		r = emit(l, who->line, "%s %s%s%s:%s%s%s%s%s", single && !deny ? "single" : verb,
			 six ? "[" : "", ranged ? who->text : name, six ? "]" : "", (const char *)buf_head(&ports),
			 protocol[0] != '\0' ? "/" : "", protocol, addrs != NULL && addrs->child != NULL ? "@" : "",
			 addrs != NULL ? (const char *)buf_head(&nets) : "");
	buf_done(&ports);
	buf_done(&nets);
	return r;
}

int rule_emit(struct egress_load *l, enum egress_section s, const struct yaml_node *rule)
{
	const struct yaml_node *host = yaml_get(rule, "host"), *cidr = yaml_get(rule, "cidr");
	const struct yaml_node *who = host != NULL ? host : cidr;
	int r = check_id(l, rule);

	if (r < 0)
		return r;
	if (who == NULL || (host != NULL && cidr != NULL))
		return SAY(l, rule, "a rule needs either host or cidr");
	if (yaml_get(rule, "ports") == NULL)
		return SAY(l, rule, "a rule needs ports, such as 'ports: [443]'");
	r = s == SECTION_RULE ? check_together(l, rule) : 0;
	if (r == 0)
		r = emit_head(l, s, rule, who, cidr != NULL);
	if (r == 0)
		r = emit_section(l, s, rule);
	return r < 0 || s != SECTION_RULE ? r : emit_parts(l, rule);
}
