#include "egress/priv.h"
/* Files, profiles and words, in the order they are added, become one text for the gate; then all of it is checked by the
 * gate's own code, and what that refuses is told with the line it came from. */
#include "base/cleanup.h"
#include "base/quote.h"
#include "wire/gate.h"

#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { POLICY_LINE = 80 }; /* "policy " and a SHA-256, kept free of GATE_TEXT_MAX */

void egress_init(struct egress *g)
{
	*g = (struct egress){.from = NULL};
	buf_init(&g->text, GATE_TEXT_MAX - POLICY_LINE);
}

void egress_done(struct egress *g)
{
	buf_done(&g->text);
	free(g->from);
	g->from = NULL;
	g->from_n = g->from_cap = 0;
}

/* ---- files ---- */

static int emit_resolvers(struct egress_load *l, const struct yaml_node *n)
{
	struct buf list;
	int r = 0;

	buf_init(&list, 1024);
	for (const struct yaml_node *c = n->child; r == 0 && c != NULL; c = c->next) {
		if (c->text[strspn(c->text, "0123456789abcdefABCDEF.:[]")] != '\0')
			r = yaml_refuse(l->file, c->line, l->e, "resolver: IP, IP:PORT or [IPv6]:PORT is expected");
		else if ((c != n->child && buf_put(&list, ",", 1) < 0) || buf_put(&list, c->text, strlen(c->text)) < 0)
			r = yaml_refuse(l->file, c->line, l->e, "resolver: too many");
	}
	if (r == 0 && list.len > 0)
		r = emit(l, n->line, "resolver %.*s", (int)list.len, (const char *)buf_head(&list));
	buf_done(&list);
	return r;
}

static int emit_dns(struct egress_load *l, const struct yaml_node *dns)
{
	const struct yaml_node *aaaa = yaml_get(dns, "aaaa"), *mode = yaml_get(dns, "mode"), *resolver = yaml_get(dns, "resolver");
	int r = emit_section(l, SECTION_DNS, dns);

	if (r == 0 && aaaa != NULL)
		r = emit(l, aaaa->line, "dns aaaa %d", strcmp(aaaa->text, "synthetic") == 0);
	if (r == 0 && mode != NULL)
		r = emit(l, mode->line, "dns pinned %d", strcmp(mode->text, "pinned") == 0);
	return r == 0 && resolver != NULL ? emit_resolvers(l, resolver) : r;
}

static int emit_proxy(struct egress_load *l, const struct yaml_node *proxy)
{
	const struct yaml_node *address = yaml_get(proxy, "address"), *secret = yaml_get(proxy, "credentials");
	const char *colon = secret != NULL ? strchr(secret->text, ':') : NULL;

	if (address == NULL)
		return yaml_refuse(l->file, proxy->line, l->e, "proxy: address is needed, such as 'address: 10.0.0.5:3128'");
	if (address->text[strspn(address->text, "0123456789abcdefABCDEF.:[]")] != '\0')
		return yaml_refuse(l->file, address->line, l->e, "address: IP:PORT or [IPv6]:PORT is expected: a name would have to be looked up");
	if (secret != NULL && (colon == NULL || colon == secret->text || colon[1] == '\0'))
		return yaml_refuse(l->file, secret->line, l->e,
				   "credentials: where they are found is expected, such as env:NAME or file:/PATH, never themselves");
	return emit_section(l, SECTION_PROXY, proxy);
}

int egress_add_proxy(struct egress *g, const char *file, const struct yaml_node *map, struct err *e)
{
	struct egress_load l = {.g = g, .file = file, .e = e};
	const struct yaml_node *proxy = yaml_get(map, "proxy");
	int r = schema_check(&l, SECTION_TOP, map);

	return r < 0 || proxy == NULL ? r : emit_proxy(&l, proxy);
}

static int emit_rules(struct egress_load *l, enum egress_section s, const struct yaml_node *list)
{
	int r = 0;

	for (const struct yaml_node *c = list != NULL ? list->child : NULL; r == 0 && c != NULL; c = c->next)
		r = rule_emit(l, s, c);
	return r;
}

int egress_add_node(struct egress *g, const char *file, const struct yaml_node *map, struct err *e)
{
	struct egress_load l = {.g = g, .file = file, .e = e};
	const struct yaml_node *dns = yaml_get(map, "dns"), *limits = yaml_get(map, "limits");
	const struct yaml_node *on_deny = yaml_get(map, "on_deny"), *proxy = yaml_get(map, "proxy");
	int r = schema_check(&l, SECTION_TOP, map);

	if (r == 0)
		r = emit_section(&l, SECTION_TOP, map);
	if (r == 0 && dns != NULL)
		r = emit_dns(&l, dns);
	if (r == 0 && proxy != NULL)
		r = emit_proxy(&l, proxy);
	if (r == 0 && limits != NULL)
		r = emit_section(&l, SECTION_LIMITS, limits);
	if (r == 0 && on_deny != NULL)
		r = emit_section(&l, SECTION_ON_DENY, on_deny);
	if (r == 0)
		r = emit_rules(&l, SECTION_DENY, yaml_get(map, "deny"));
	return r < 0 ? r : emit_rules(&l, SECTION_RULE, yaml_get(map, "rules"));
}

int egress_add_text(struct egress *g, const char *file, const char *text, size_t n, struct err *e)
{
	struct yaml_node *root = NULL;
	int r;

	if (n > EGRESS_FILE_MAX)
		return err_set(e, ERR_INVALID, EFBIG, "%.100s: larger than %d KiB", file, EGRESS_FILE_MAX / 1024);
	r = yaml_tree(file, "file of egress rules", text, n, &root, e);
	if (r == 0 && yaml_get(root, "version") == NULL)
		r = err_set(e, ERR_INVALID, EINVAL, "%.100s: version is missing: the file needs 'version: 1'", file);
	if (r == 0)
		r = egress_add_node(g, file, root, e);
	yaml_tree_free(root);
	return r;
}

int egress_add_file(struct egress *g, const char *path, struct err *e)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	char q[QUOTE_MAX];
	ssize_t n = fd < 0 ? -1 : 1;
	struct buf b;
	int r = 0;

	buf_init(&b, EGRESS_FILE_MAX + 4096);
	while (n > 0 && b.len <= EGRESS_FILE_MAX) {
		uint8_t *at = buf_reserve(&b, 4096);

		if (at == NULL)
			break;
		n = read(fd, at, 4096);
		if (n < 0 && errno == EINTR)
			n = 1;
		else if (n > 0)
			buf_commit(&b, (size_t)n);
	}
	if (n < 0)
		r = err_set(e, ERR_NOT_FOUND, errno, "egress rules %s: %s", quote(path, q), strerror(errno));
	else
		r = egress_add_text(g, path, b.len > 0 ? (const char *)buf_head(&b) : "", b.len, e);
	buf_done(&b);
	return r;
}

/* ---- words ---- */

static bool is_address(const char *s, size_t n)
{
	bool digits = true;

	for (size_t i = 0; i < n; i++) {
		if (s[i] == ':' || s[i] == '[' || s[i] == '/')
			return true;
		digits &= (s[i] >= '0' && s[i] <= '9') || s[i] == '.';
	}
	return digits;
}

int egress_add_word(struct egress *g, enum egress_verb verb, const char *word, struct err *e)
{
	static const char *const verbs[] = {[EGRESS_ALLOW] = "allow", [EGRESS_RANGE] = "range", [EGRESS_DENY] = "deny"};
	struct egress_load l = {.g = g, .file = verb == EGRESS_ALLOW ? "--allow" : verb == EGRESS_RANGE ? "--allow-cidr" : "--deny", .e = e};
	_cleanup_free_ char *host = NULL, *name = NULL;
	size_t end = strcspn(word, "@");
	const char *colon = memrchr(word, ':', end);
	char q[QUOTE_MAX];
	bool single = false, deny = verb == EGRESS_DENY;
	int r;

	if (word[strcspn(word, " \t\r\n")] != '\0')
		return err_set(e, ERR_INVALID, EINVAL, "%s: %s: a rule is one word", l.file, quote(word, q));
	if (colon == NULL || is_address(word, (size_t)(colon - word)))
		return emit(&l, 0, "%s %s", verbs[verb], word);
	host = strndup(word, (size_t)(colon - word));
	if (host == NULL)
		return err_no_memory(e);
	r = host_read(host, deny, deny, &name, &single, e);
	return r < 0 ? err_wrap(e, r, "%s", l.file) : emit(&l, 0, "%s %s%s", verbs[verb], name, colon);
}

/* ---- the whole ---- */

struct id {
	const char *s;
	size_t n;
	uint32_t line;
};

static int by_id(const void *a, const void *b)
{
	const struct id *x = (const struct id *)a, *y = (const struct id *)b;
	int c = memcmp(x->s, y->s, x->n < y->n ? x->n : y->n);

	if (c != 0)
		return c;
	if (x->n != y->n)
		return x->n < y->n ? -1 : 1;
	return x->line < y->line ? -1 : 1;
}

/* Two rules of one id would be one in the records. */
static int check_ids(const struct egress *g, struct err *e)
{
	_cleanup_free_ struct id *ids = calloc(g->from_n + 1u, sizeof(*ids));
	const char *p = (const char *)buf_head(&g->text);
	char q[QUOTE_MAX];
	uint32_t n = 0;

	if (ids == NULL)
		return err_no_memory(e);
	for (uint32_t i = 0; i < g->from_n; i++) {
		size_t len = strcspn(p, "\n");

		if (len > 4 && memcmp(p, "+id ", 4) == 0) {
			ids[n] = (struct id){.s = p + 4, .n = len - 4, .line = i};
			n++;
		}
		p += len + 1;
	}
	qsort(ids, n, sizeof(*ids), by_id);
	for (uint32_t i = 1; i < n; i++)
		if (ids[i].n == ids[i - 1].n && memcmp(ids[i].s, ids[i - 1].s, ids[i].n) == 0)
			return yaml_refuse(g->from[ids[i].line].file, g->from[ids[i].line].line, e,
					   "id: %s is given twice (first in line %d of %.60s)", quote_n(ids[i].s, ids[i].n, q),
					   g->from[ids[i - 1].line].line, g->from[ids[i - 1].line].file);
	return 0;
}

static int tell_line(const struct egress *g, uint32_t line, int r, struct err *e)
{
	const struct egress_from *f = &g->from[line - 1];

	return f->line > 0 ? err_wrap(e, r, "%.100s:%d", f->file, f->line) : err_wrap(e, r, "%s", f->file);
}

int egress_finish(struct egress *g, char **ret, struct err *e)
{
	uint8_t sum[crypto_hash_sha256_BYTES];
	char hex[sizeof(sum) * 2 + 1];
	uint32_t line = 0;
	uint8_t *end = buf_reserve(&g->text, 1);
	char *out = NULL;
	int r;

	if (end == NULL)
		return err_set(e, ERR_LIMITED, E2BIG, "egress: more than %zu bytes of rules", g->text.max);
	*end = '\0'; /* a string, its end not counted */
	r = check_ids(g, e);
	if (r == 0)
		r = judge_check((const char *)buf_head(&g->text), g->text.len, &line, e);
	if (r < 0)
		return line > 0 && line <= g->from_n ? tell_line(g, line, r, e) : r;
	(void)crypto_hash_sha256(sum, buf_head(&g->text), g->text.len);
	(void)sodium_bin2hex(hex, sizeof(hex), sum, sizeof(sum));
	if (asprintf(&out, "policy %s\n%.*s", hex, (int)g->text.len, (const char *)buf_head(&g->text)) < 0)
		return err_no_memory(e);
	*ret = out;
	return 0;
}
