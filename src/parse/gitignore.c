#include "parse/gitignore.h"

#include <ctype.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/*
 * Theory of operation. The text comes from whatever project is copied, so it is foreign: sizes are
 * capped, and matching backtracks to the last star only (with a second, outer point for the last **
 * component), so no pattern makes it exponential.
 *
 * Why one point of each kind is enough: what a later * can leave out includes all that an earlier
 * one could have left out in addition, as far as the part between them has matched already.
 */

struct pattern {
	char *glob;     /* without '!', leading and trailing '/' */
	bool negated;
	bool dir_only;
	bool anchored;  /* matched against the whole path, not the last component */
};

struct gitignore {
	struct pattern *list;
	size_t n, room;
};

/* ---- the glob ---- */

static bool in_class(const char *name, size_t n, unsigned char c)
{
	static const struct {
		const char *name;
		int (*fn)(int);
	} classes[] = {{"alnum", isalnum}, {"alpha", isalpha}, {"blank", isblank}, {"cntrl", iscntrl},
		       {"digit", isdigit}, {"graph", isgraph}, {"lower", islower}, {"print", isprint},
		       {"punct", ispunct}, {"space", isspace}, {"upper", isupper}, {"xdigit", isxdigit}};

	for (size_t i = 0; i < sizeof(classes) / sizeof(classes[0]); i++) {
		if (strlen(classes[i].name) == n && memcmp(classes[i].name, name, n) == 0)
			return c < 128 && classes[i].fn(c) != 0;
	}
	return false;
}

/* Match c against the bracket expression at p ('['). Its end, or NULL when it is not closed. */
static const char *bracket(const char *p, unsigned char c, bool *ret)
{
	bool negate = false, hit = false;
	const char *start;

	p++;
	if (*p == '!' || *p == '^') {
		negate = true;
		p++;
	}
	start = p;
	while (*p != '\0' && (*p != ']' || p == start)) {
		unsigned char lo, hi;
		const char *end;

		if (p[0] == '[' && p[1] == ':' && (end = strstr(p + 2, ":]")) != NULL) {
			hit |= in_class(p + 2, (size_t)(end - p - 2), c);
			p = end + 2;
			continue;
		}
		if (*p == '\\' && p[1] != '\0')
			p++;
		lo = hi = (unsigned char)*p++;
		if (p[0] == '-' && p[1] != ']' && p[1] != '\0') {
			p++;
			if (*p == '\\' && p[1] != '\0')
				p++;
			hi = (unsigned char)*p++;
		}
		hit |= c >= lo && c <= hi;
	}
	if (*p != ']')
		return NULL;
	*ret = hit != negate;
	return p + 1;
}

/* Match one character that is no star: the pattern's next position, or NULL. */
static const char *one(const char *p, char c, bool path)
{
	bool hit = false;
	const char *end;

	if (*p == '\\')
		return p[1] != '\0' && p[1] == c ? p + 2 : NULL;
	if (*p == '?')
		return path && c == '/' ? NULL : p + 1;
	if (*p == '[') {
		end = bracket(p, (unsigned char)c, &hit);
		return end != NULL && hit && !(path && c == '/') ? end : NULL;
	}
	return *p == c ? p + 1 : NULL;
}

/* The length of a component of two or more stars and nothing else at p; 0 when it is none. */
static size_t deep_len(const char *p, const char *pattern)
{
	size_t n = strspn(p, "*");

	return n >= 2 && (p[n] == '/' || p[n] == '\0') && (p == pattern || p[-1] == '/') ? n : 0;
}

bool gitignore_glob(const char *pattern, const char *text, bool path)
{
	const char *p = pattern, *t = text;
	const char *star_p = NULL, *star_t = NULL; /* after the last *, and what it has eaten up to */
	const char *deep_p = NULL, *deep_t = NULL; /* the same for the last component ** */

	for (;;) {
		size_t deep = path ? deep_len(p, pattern) : 0;
		const char *next;

		if (deep > 0) {
			if (p[deep] == '\0')
				return *t != '\0'; /* everything inside the folder */
			p += deep + 1;
			deep_p = p;
			deep_t = t;
			star_p = NULL;
			continue;
		}
		if (*p == '*') {
			while (*p == '*')
				p++;
			star_p = p;
			star_t = t;
			continue;
		}
		if (*t == '\0' && *p == '\0')
			return true;
		next = *t != '\0' && *p != '\0' ? one(p, *t, path) : NULL;
		if (next != NULL) {
			p = next;
			t++;
			continue;
		}
		if (star_p != NULL && *star_t != '\0' && !(path && *star_t == '/')) {
			p = star_p;
			t = ++star_t;
			continue;
		}
		if (deep_p == NULL)
			return false;
		/* One more folder for the **. */
		deep_t = strchr(deep_t, '/');
		if (deep_t == NULL)
			return false;
		t = ++deep_t;
		p = deep_p;
		star_p = NULL;
	}
}

/* ---- the file ---- */

static int add(struct gitignore *g, struct pattern p)
{
	if (g->n == g->room) {
		size_t room = g->room == 0 ? 16 : g->room * 2;
		struct pattern *list;

		if (g->n >= GITIGNORE_PATTERNS_MAX)
			return -E2BIG;
		list = reallocarray(g->list, room, sizeof(*list));
		if (list == NULL)
			return -ENOMEM;
		g->list = list;
		g->room = room;
	}
	g->list[g->n++] = p;
	return 0;
}

/* Length without trailing spaces, of which a backslash protects the one after it. */
static size_t strip_end(const char *line, size_t n)
{
	size_t keep = 0;

	for (size_t i = 0; i < n; i++) {
		if (line[i] == '\\' && i + 1 < n)
			keep = ++i + 1;
		else if (line[i] != ' ')
			keep = i + 1;
	}
	return keep;
}

static int parse_line(struct gitignore *g, const char *line, size_t n)
{
	struct pattern p = {.glob = NULL};
	int r;

	if (n > 0 && line[n - 1] == '\r')
		n--;
	if (n > GITIGNORE_LINE_MAX)
		return 0;
	n = strip_end(line, n);
	if (n == 0 || line[0] == '#' || memchr(line, '\0', n) != NULL)
		return 0;
	if (line[0] == '!') {
		p.negated = true;
		line++;
		n--;
	}
	if (n > 0 && line[n - 1] == '/') {
		p.dir_only = true;
		n--;
	}
	if (n == 0)
		return 0;
	p.anchored = memchr(line, '/', n) != NULL;
	if (line[0] == '/') {
		line++;
		n--;
	}
	if (n == 0)
		return 0;
	p.glob = strndup(line, n);
	if (p.glob == NULL)
		return -ENOMEM;
	r = add(g, p);
	if (r < 0)
		free(p.glob);
	return r;
}

int gitignore_parse(const char *text, size_t n, struct gitignore **ret)
{
	struct gitignore *g;

	if (n > GITIGNORE_FILE_MAX)
		return -E2BIG;
	g = calloc(1, sizeof(*g));
	if (g == NULL)
		return -ENOMEM;
	if (n >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) { /* a byte order mark */
		text += 3;
		n -= 3;
	}
	while (n > 0) {
		const char *nl = memchr(text, '\n', n);
		size_t len = nl != NULL ? (size_t)(nl - text) : n;
		int r = parse_line(g, text, len);

		if (r < 0) {
			gitignore_free(g);
			return r;
		}
		len += nl != NULL;
		text += len;
		n -= len;
	}
	*ret = g;
	return 0;
}

void gitignore_free(struct gitignore *g)
{
	if (g == NULL)
		return;
	for (size_t i = 0; i < g->n; i++)
		free(g->list[i].glob);
	free(g->list);
	free(g);
}

enum gitignore_answer gitignore_match(const struct gitignore *g, const char *path, bool is_dir)
{
	const char *slash = strrchr(path, '/');
	const char *base = slash != NULL ? slash + 1 : path;

	for (size_t i = g->n; i > 0; i--) {
		const struct pattern *p = &g->list[i - 1];

		if (p->dir_only && !is_dir)
			continue;
		if (p->anchored ? gitignore_glob(p->glob, path, true)
				: gitignore_glob(p->glob, base, false))
			return p->negated ? GITIGNORE_KEEP : GITIGNORE_IGNORE;
	}
	return GITIGNORE_SILENT;
}
