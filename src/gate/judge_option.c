#include "gate/judge_priv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/*
 * The lines that continue a rule, each a KEY and the rest of the line as its value, and the lines `limit KEY NUMBER`. One
 * table each. brig has checked the caller's file and says what is wrong there; here a line is good or the whole text is not.
 */

bool num_parse(const char *s, size_t n, uint64_t max, uint64_t *ret)
{
	uint64_t v = 0;

	if (n == 0)
		return false;
	for (size_t i = 0; i < n; i++) {
		if (s[i] < '0' || s[i] > '9' || !mul_u64(v, 10, &v) || !add_u64(v, (uint64_t)(s[i] - '0'), &v) || v > max)
			return false;
	}
	*ret = v;
	return true;
}

#define LIMIT32(key) {#key, offsetof(struct judge_limits, key), false}
#define LIMIT64(key) {#key, offsetof(struct judge_limits, key), true}
static const struct {
	const char *key;
	size_t at;
	bool wide;
} limits[] = {LIMIT32(max_conns), LIMIT32(conn_rate_per_s), LIMIT32(burst),
	      LIMIT64(bytes_up), LIMIT64(bytes_down), LIMIT32(idle_s),
	      LIMIT32(max_conn_s), LIMIT32(connect_timeout_ms), LIMIT32(requests_per_min),
	      LIMIT32(kill_after)};

int limit_parse(struct judge_limits *l, const char *s, size_t n, struct err *e)
{
	for (size_t i = 0; i < ARRAY_LEN(limits); i++) {
		size_t k = strlen(limits[i].key);
		char *to = (char *)l + limits[i].at;
		uint64_t v;
		uint32_t narrow;

		if (n <= k || memcmp(s, limits[i].key, k) != 0 || s[k] != ' ')
			continue;
		if (!num_parse(s + k + 1, n - k - 1, limits[i].wide ? UINT64_MAX : UINT32_MAX, &v))
			return err_set(e, ERR_INVALID, EINVAL, "%.*s: a number is needed", (int)MIN(n, (size_t)80), s);
		narrow = (uint32_t)v;
		if (limits[i].wide)
			memcpy(to, &v, sizeof(v));
		else
			memcpy(to, &narrow, sizeof(narrow));
		return 0;
	}
	return err_set(e, ERR_INVALID, EINVAL, "%.*s: no such limit", (int)MIN(n, (size_t)80), s);
}

/* ---- a rule's ---- */

static bool word_in(char (*words)[HTTP_WORD_MAX], uint32_t *n, const char *s, size_t len)
{
	if (*n == HTTP_WORDS_MAX || len == 0 || len >= HTTP_WORD_MAX)
		return false;
	memcpy(words[*n], s, len);
	words[*n][len] = '\0';
	(*n)++;
	return true;
}

static struct judge_http *http_of(struct rule *r)
{
	if (r->http == NULL)
		r->http = calloc(1, sizeof(*r->http));
	return r->http;
}

static struct judge_inject *inject_of(struct rule *r)
{
	return r->http != NULL && r->http->inject_n > 0 ? &r->http->inject[r->http->inject_n - 1] : NULL;
}

static bool set_text(char **to, const char *s, size_t n)
{
	if (*to != NULL || n == 0 || n > 1024)
		return false;
	*to = strndup(s, n);
	return *to != NULL;
}

static bool is(const char *s, size_t n, const char *word) { return strlen(word) == n && memcmp(s, word, n) == 0; }

static bool set_switch(const char *s, size_t n, const char *off, const char *on, bool *ret)
{
	*ret = is(s, n, on);
	return *ret || is(s, n, off);
}

static bool set_num(const char *s, size_t n, uint32_t max, uint32_t *ret)
{
	uint64_t v;

	if (!num_parse(s, n, max, &v))
		return false;
	*ret = (uint32_t)v;
	return true;
}

static bool opt_id(struct rule *r, const char *s, size_t n)
{
	if (n == 0 || n > JUDGE_ID_MAX)
		return false;
	memcpy(r->id, s, n);
	r->id[n] = '\0';
	return true;
}
static bool opt_tls(struct rule *r, const char *s, size_t n)
{
	return set_switch(s, n, "opaque", "inspect", &r->inspect) && (!r->inspect || r->check == CHECK_TLS);
}
static bool opt_ech(struct rule *r, const char *s, size_t n) { return set_switch(s, n, "deny", "allow", &r->ech_allow); }
static bool opt_via(struct rule *r, const char *s, size_t n) { return set_switch(s, n, "proxy", "direct", &r->direct); }
static bool opt_names(struct rule *r, const char *s, size_t n) { return set_num(s, n, NAMES_MAX, &r->names_max); }
static bool opt_label(struct rule *r, const char *s, size_t n) { return set_num(s, n, 63, &r->label_max); }
static bool opt_limit(struct rule *r, const char *s, size_t n) { return limit_parse(&r->limits, s, n, NULL) == 0; }
static bool opt_method(struct rule *r, const char *s, size_t n)
{
	return http_of(r) != NULL && word_in(r->http->methods, &r->http->methods_n, s, n);
}
static bool opt_upgrade(struct rule *r, const char *s, size_t n)
{
	return http_of(r) != NULL && word_in(r->http->upgrades, &r->http->upgrades_n, s, n);
}
static bool opt_path(struct rule *r, const char *s, size_t n)
{
	if (http_of(r) == NULL || r->http->paths_n == HTTP_PATHS_MAX || n == 0 || s[0] != '/' ||
	    !set_text(&r->http->paths[r->http->paths_n], s, n))
		return false;
	r->http->paths_n++;
	return true;
}
static bool opt_body(struct rule *r, const char *s, size_t n)
{
	return http_of(r) != NULL && num_parse(s, n, UINT64_MAX, &r->http->max_body_bytes);
}
static bool opt_raw_paths(struct rule *r, const char *s, size_t n)
{
	return http_of(r) != NULL && set_switch(s, n, "no", "yes", &r->http->raw_paths);
}
static bool opt_plaintext(struct rule *r, const char *s, size_t n)
{
	return http_of(r) != NULL && set_switch(s, n, "no", "yes", &r->http->plaintext_inject);
}
static bool opt_inject(struct rule *r, const char *s, size_t n)
{
	if (http_of(r) == NULL || r->http->inject_n == HTTP_INJECT_MAX ||
	    !set_text(&r->http->inject[r->http->inject_n].header, s, n))
		return false;
	r->http->inject[r->http->inject_n].strip_client_value = true;
	r->http->inject[r->http->inject_n].redact_response = true;
	r->http->inject_n++;
	return true;
}
static bool opt_format(struct rule *r, const char *s, size_t n)
{
	return inject_of(r) != NULL && set_text(&inject_of(r)->format, s, n);
}
static bool opt_secret(struct rule *r, const char *s, size_t n)
{
	return inject_of(r) != NULL && set_text(&inject_of(r)->secret, s, n);
}
static bool opt_placeholder(struct rule *r, const char *s, size_t n)
{
	return inject_of(r) != NULL && set_text(&inject_of(r)->placeholder, s, n);
}
static bool opt_strip(struct rule *r, const char *s, size_t n)
{
	return inject_of(r) != NULL && set_switch(s, n, "no", "yes", &inject_of(r)->strip_client_value);
}
static bool opt_redact(struct rule *r, const char *s, size_t n)
{
	return inject_of(r) != NULL && set_switch(s, n, "no", "yes", &inject_of(r)->redact_response);
}

static const struct {
	const char *key;
	bool (*set)(struct rule *r, const char *s, size_t n);
} options[] = {
    {"id", opt_id},	      {"tls", opt_tls},		    {"ech", opt_ech},
    {"names", opt_names},     {"label", opt_label},	    {"limit", opt_limit},
    {"method", opt_method},   {"upgrade", opt_upgrade},	    {"path", opt_path},
    {"body", opt_body},	      {"raw_paths", opt_raw_paths}, {"plaintext_inject", opt_plaintext},
    {"inject", opt_inject},   {"format", opt_format},	    {"secret", opt_secret},
    {"strip", opt_strip},     {"redact", opt_redact},	    {"placeholder", opt_placeholder},
    {"via", opt_via},
};

int rule_option(struct rule *r, const char *s, size_t n, struct err *e)
{
	for (size_t i = 0; i < ARRAY_LEN(options); i++) {
		size_t k = strlen(options[i].key);

		if (n > k && memcmp(s, options[i].key, k) == 0 && s[k] == ' ' &&
		    options[i].set(r, s + k + 1, n - k - 1))
			return 0;
	}
	return err_set(e, ERR_INVALID, EINVAL, "+%.*s: cannot be said of this rule", (int)MIN(n, (size_t)80), s);
}

void rule_done(struct rule *r)
{
	struct judge_http *h = r->http;

	for (uint32_t i = 0; h != NULL && i < h->paths_n; i++)
		free(h->paths[i]);
	for (uint32_t i = 0; h != NULL && i < h->inject_n; i++) {
		free(h->inject[i].header);
		free(h->inject[i].format);
		free(h->inject[i].secret);
		free(h->inject[i].placeholder);
	}
	free(h);
	r->http = NULL;
}
