#pragma once
/* The sandbox's own /etc/passwd and /etc/group, read by the agent. The parsers are parse/user.h's. */
#include "parse/user.h"

/* Both files. A missing, odd or too large one counts as empty. As user_find. */
int must_check user_load(const char *spec, size_t spec_len, struct user *ret);
/* Read a file of the sandbox whole: owned by the caller (free), *ret_n bytes; NULL when it is not a
 * regular file of at most USER_FILE_MAX bytes. Never blocks on what it opens. */
char *user_read_file(const char *path, size_t *ret_n);
