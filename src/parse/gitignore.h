#pragma once
/*
 * The patterns of one ignore file, with the meaning gitignore(5) gives them.
 *
 * One object holds one file. The caller walks the tree, keeps the objects of the folders above an
 * entry, asks the innermost first and takes the first answer that is not GITIGNORE_SILENT. It must
 * not enter an ignored folder: what is below one can't be brought back.
 */
#include <stdbool.h>
#include <stddef.h>

enum {
	GITIGNORE_FILE_MAX = 1024 * 1024, /* largest file, bytes */
	GITIGNORE_LINE_MAX = 4096,        /* longer lines match nothing, bytes */
	GITIGNORE_PATTERNS_MAX = 16384,
};

enum gitignore_answer {
	GITIGNORE_SILENT, /* no pattern matches */
	GITIGNORE_IGNORE, /* the last pattern that matches ignores it */
	GITIGNORE_KEEP,   /* the last pattern that matches is negated ("!") */
};

struct gitignore; /* opaque */

/* Parse a file's text. 0 and an object for gitignore_free; -E2BIG when a limit above is passed,
 * -ENOMEM. There are no malformed patterns: an odd one just matches nothing. */
int gitignore_parse(const char *text, size_t n, struct gitignore **ret);
void gitignore_free(struct gitignore *g); /* accepts NULL */

/* What the file says about a path (relative to the ignore file's folder, form a/b/c). */
enum gitignore_answer gitignore_match(const struct gitignore *g, const char *path, bool is_dir);

/*
 * The glob underneath: ? * [..] and, with `path` true, the file name rules of gitignore: * ? and
 * [..] do not match '/', and a component of nothing but two or more stars stands for any number of folders.
 * Time is bounded by pattern length times text length times the number of ** components.
 */
bool gitignore_glob(const char *pattern, const char *text, bool path);
