#pragma once
/* The fields of a record that say what a file is: for STAT, LIST and WATCH alike. */
#include "guest/worker.h"

#include <sys/stat.h>

struct entry_names { /* the sandbox's passwd and group, read when the first record needs them */
	char *passwd, *group; /* owned */
	size_t passwd_n, group_n;
	bool tried;
};
void entry_names_done(struct entry_names *n);

/*
 * Append them to rec. The file is `name` in the folder `at`, and `shown` below the request's PATH ("" =
 * PATH itself). With REQ_DETAIL its group, attributes, and where a link leads.
 */
void entry_put(const struct worker *w, struct entry_names *names, struct msg_writer *rec, int at, const char *name,
	       const char *shown, const struct stat *st);
/* WRITE: remove the attributes XATTRS names from the open file and set each XATTR. 0 or -errno. */
int must_check entry_set_xattrs(const struct worker *w, int fd);
