#pragma once
/* The words of --file and --out. */
#include "base/err.h"

/* SRC:DST split at the last colon. Both owned by the caller. dst is NULL when there is none. */
struct path_pair {
	char *left, *right;
};
void path_pair_done(struct path_pair *p);
/* --file: right becomes an absolute path inside. */
int must_check parse_file_in(const char *word, struct path_pair *ret, struct err *e);
/* --out: left becomes an absolute path inside. */
int must_check parse_file_out(const char *word, struct path_pair *ret, struct err *e);
