#include "gate/judge_priv.h"

#include "base/num.h"

#include <string.h>

/*
 * One HTTP request against its rule. A path is compared after its unreserved characters were decoded (RFC 3986 2.3)
 * and nothing else: what servers may read in two ways is refused, unless the rule says raw_paths. In a pattern * stands
 * for any bytes of one segment, ** as a whole segment for any number of segments, none too. Case counts.
 */

enum { PATH_MAX_BYTES = 8192 };

static bool unreserved(int c)
{
	return (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z') || c == '-' || c == '.' || c == '_' || c == '~';
}

/* Without the query, unreserved bytes decoded. Length, or -1: not a path that has one meaning. */
static int plain_path(const char *s, size_t n, bool raw, char *out, size_t size)
{
	size_t to = 0;

	for (size_t i = 0; i < n && s[i] != '?'; i++) {
		int hi, lo, c;

		if (s[i] <= 0x20 || s[i] >= 0x7f || s[i] == '#' || to == size)
			return -1;
		if (s[i] != '%') {
			if (s[i] == '\\' && !raw)
				return -1;
			out[to++] = s[i];
			continue;
		}
		hi = i + 1 < n ? hex_digit((uint8_t)s[i + 1]) : -1;
		lo = i + 2 < n ? hex_digit((uint8_t)s[i + 2]) : -1;
		if (hi < 0 || lo < 0)
			return -1;
		c = hi << 4 | lo;
		if (!raw && (c == '/' || c == '\\' || c == 0))
			return -1;
		if (unreserved(c)) {
			out[to++] = (char)c;
			i += 2;
		} else {
			out[to++] = '%';
		}
	}
	if (to == 0 || out[0] != '/')
		return -1;
	for (size_t i = 0; !raw && i < to; i++) {
		size_t k = i + 1;

		if (out[i] != '/')
			continue;
		while (k < to && out[k] == '.')
			k++;
		if (k < to ? out[k] == '/' && k - i <= 3 : k - i == 2 || k - i == 3)
			return -1; /* "//", "/./", "/../", and the last two at the end */
	}
	return (int)to;
}

static size_t segment(const char *s, size_t n)
{
	const char *slash = memchr(s, '/', n);

	return slash != NULL ? (size_t)(slash - s) : n;
}

/* One segment with stars, at most n * m steps. */
static bool match_segment(const char *p, size_t pn, const char *s, size_t n)
{
	size_t star = SIZE_MAX, from = 0, i = 0, k = 0;

	while (k < n) {
		if (i < pn && p[i] == '*') {
			star = i++;
			from = k;
		} else if (i < pn && p[i] == s[k]) {
			i++;
			k++;
		} else if (star != SIZE_MAX) {
			i = star + 1;
			k = ++from;
		} else {
			return false;
		}
	}
	while (i < pn && p[i] == '*')
		i++;
	return i == pn;
}

/* Both without their leading slash. The last ** is the only one to go back to, so the work is bounded by the product. */
static bool match_path(const char *p, size_t pn, const char *s, size_t n)
{
	size_t i = 0, k = 0, star = SIZE_MAX, from = 0;

	for (;;) {
		size_t a = i <= pn ? segment(p + i, pn - i) : 0, b = k <= n ? segment(s + k, n - k) : 0;

		if (i <= pn && a == 2 && p[i] == '*' && p[i + 1] == '*') {
			star = i = i + 3; /* may be past the end: ** was the last */
			from = k;
			if (star > pn)
				return true;
		} else if (i <= pn && k <= n && match_segment(p + i, a, s + k, b)) {
			i += a + 1;
			k += b + 1;
			if (i > pn && k > n)
				return true;
		} else if (star != SIZE_MAX && from <= n) {
			from += segment(s + from, n - from) + 1;
			k = from;
			i = star;
			if (k > n)
				return false;
		} else {
			return false;
		}
	}
}

static bool has_word(const char (*words)[HTTP_WORD_MAX], uint32_t words_n, const char *s, size_t n)
{
	for (uint32_t i = 0; i < words_n; i++)
		if (strlen(words[i]) == n && memcmp(words[i], s, n) == 0)
			return true;
	return false;
}

bool judge_request(const struct judge_http *h, const char *method, size_t method_n, const char *target,
		   size_t target_n, const char **reason)
{
	char path[PATH_MAX_BYTES] = "";
	int n;

	*reason = "method";
	if (h->methods_n > 0 && !has_word(h->methods, h->methods_n, method, method_n))
		return false;
	n = plain_path(target, target_n, h->raw_paths, path, sizeof(path));
	*reason = "path_odd";
	if (n < 0)
		return false;
	*reason = "path";
	for (uint32_t i = 0; i < h->paths_n; i++)
		if (match_path(h->paths[i] + 1, strlen(h->paths[i]) - 1, path + 1, (size_t)n - 1))
			return true;
	return h->paths_n == 0;
}

const struct judge_http *judge_http(const struct judge *j, uint32_t rule_nr)
{
	static const struct judge_http nothing;

	return j->rules[rule_nr].http != NULL ? j->rules[rule_nr].http : &nothing;
}

const struct judge_inject *judge_inject(const struct judge *j, uint32_t i)
{
	for (uint32_t k = 0; k < j->rules_n; k++) {
		const struct judge_http *h = j->rules[k].http;

		if (h == NULL)
			continue;
		if (i < h->inject_n)
			return &h->inject[i];
		i -= h->inject_n;
	}
	return NULL;
}

unsigned judge_reads(const struct judge *j)
{
	unsigned need = 0;

	for (uint32_t i = 0; i < j->rules_n; i++) {
		const struct rule *r = &j->rules[i];

		if (!r->deny && r->kind != RULE_CIDR && r->check == CHECK_HTTP)
			need |= JUDGE_READS_HTTP;
		if (!r->deny && r->inspect)
			need |= JUDGE_READS_TLS;
	}
	return need;
}
