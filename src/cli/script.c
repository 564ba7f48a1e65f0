#include "cli/script.h"
/*
 * `brig run script.py` copies the file to /workspace and runs it with the interpreter its `#!` line
 * names (by the last path component: the image keeps its programs elsewhere), else the one its suffix
 * stands for. The file is the caller's but untrusted: one bounded read decides.
 *
 * A path of the image's own places (/usr without /usr/local, /bin, /sbin, /lib) always means the
 * image's program, even when the host has a script of that name.
 */
#include "base/cleanup.h"
#include "base/num.h"
#include "base/quote.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { HEAD = 512 };

static const struct {
	const char *suffix, *interpreter, *arg;
} suffixes[] = {
    {".py", "python3", ""}, {".js", "node", ""},    {".mjs", "node", ""},  {".cjs", "node", ""},
    {".sh", "sh", ""},      {".bash", "bash", ""},  {".pl", "perl", ""},   {".rb", "ruby", ""},
    {".awk", "awk", "-f"},  {".lua", "lua", ""},    {".php", "php", ""},   {".R", "Rscript", ""},
};

static bool of_the_image(const char *word)
{
	static const char *const places[] = {"/usr/", "/bin/", "/sbin/", "/lib/", "/lib64/"};

	if (strncmp(word, "/usr/local/", 11) == 0)
		return false;
	for (size_t i = 0; i < ARRAY_LEN(places); i++)
		if (strncmp(word, places[i], strlen(places[i])) == 0)
			return true;
	return false;
}

static bool is_blank(char c) { return c == ' ' || c == '\t'; }

/* The next word of a `#!` line; advances *p. Length 0 = none left. */
static size_t next_word(const char **p, const char *end, const char **ret)
{
	while (*p < end && is_blank(**p))
		(*p)++;
	*ret = *p;
	while (*p < end && !is_blank(**p))
		(*p)++;
	return (size_t)(*p - *ret);
}

int script_shebang(const char *line, size_t len, struct script *ret)
{
	const char *p = line + 2, *end = line + len, *word, *base;
	size_t n;

	while (end > p && (is_blank(end[-1]) || end[-1] == '\r'))
		end--;
	n = next_word(&p, end, &word);
	base = n > 0 ? (const char *)memrchr(word, '/', n) : NULL;
	if (base != NULL && (size_t)(word + n - base) == 4 && memcmp(base, "/env", 4) == 0)
		do /* env [-S] [NAME=VALUE]... PROGRAM */
			n = next_word(&p, end, &word);
		while (n > 0 && (word[0] == '-' || memchr(word, '=', n) != NULL));
	base = n > 0 ? (const char *)memrchr(word, '/', n) : NULL;
	if (base != NULL) {
		n = (size_t)(word + n - base) - 1;
		word = base + 1;
	}
	while (p < end && is_blank(*p))
		p++;
	if (n == 0 || n >= sizeof(ret->interpreter) || (size_t)(end - p) >= sizeof(ret->arg) ||
	    memchr(word, '\0', n) != NULL || memchr(p, '\0', (size_t)(end - p)) != NULL)
		return -EINVAL;
	memcpy(ret->interpreter, word, n);
	ret->interpreter[n] = '\0';
	memcpy(ret->arg, p, (size_t)(end - p));
	ret->arg[end - p] = '\0';
	return 0;
}

static bool by_suffix(const char *word, struct script *ret)
{
	size_t n = strlen(word);

	for (size_t i = 0; i < ARRAY_LEN(suffixes); i++) {
		size_t m = strlen(suffixes[i].suffix);

		if (n <= m || strcmp(word + n - m, suffixes[i].suffix) != 0)
			continue;
		(void)snprintf(ret->interpreter, sizeof(ret->interpreter), "%s",
			       suffixes[i].interpreter);
		(void)snprintf(ret->arg, sizeof(ret->arg), "%s", suffixes[i].arg);
		return true;
	}
	return false;
}

int script_detect(const char *word, struct script *ret, struct err *e)
{
	_cleanup_close_ int fd = -1;
	char head[HEAD], q[QUOTE_MAX];
	const char *base, *nl;
	struct stat st;
	ssize_t n;

	if (of_the_image(word) || stat(word, &st) < 0 || !S_ISREG(st.st_mode))
		return 0;
	*ret = (struct script){.path = ""};
	fd = open(word, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	n = fd >= 0 ? read(fd, head, sizeof(head)) : -1;
	if (n < 0)
		return by_suffix(word, ret) ? err_set(e, ERR_INVALID, errno, "%s: %s",
						      quote(word, q), strerror(errno))
					    : 0;
	nl = (const char *)memchr(head, '\n', (size_t)n);
	if (n > 2 && memcmp(head, "#!", 2) == 0) {
		if (nl == NULL && n == HEAD)
			return err_set(e, ERR_INVALID, EINVAL, "%s: the #! line is too long",
				       quote(word, q));
		if (script_shebang(head, nl != NULL ? (size_t)(nl - head) : (size_t)n, ret) < 0)
			return err_set(e, ERR_INVALID, EINVAL,
				       "%s: the #! line names no interpreter", quote(word, q));
	} else if (!by_suffix(word, ret)) {
		if (n < 4 || memcmp(head, "\177ELF", 4) != 0 || strchr(word, '/') == NULL)
			return 0;
	}
	base = strrchr(word, '/');
	base = base != NULL ? base + 1 : word;
	if (strlen(word) >= sizeof(ret->path) || strlen(base) >= sizeof(ret->inside) - 16)
		return err_set(e, ERR_INVALID, ENAMETOOLONG, "%s: too long", quote(word, q));
	(void)snprintf(ret->path, sizeof(ret->path), "%s", word);
	(void)snprintf(ret->inside, sizeof(ret->inside), "/workspace/%s", base);
	return 1;
}
