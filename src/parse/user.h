#pragma once
/*
 * Who a request runs as. /etc/passwd and /etc/group of the sandbox belong to the sandbox: hostile bytes
 * of bounded size that can only ever choose among the sandbox's own ids.
 */
#include "base/err.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { USER_GROUPS_MAX = 64, USER_FILE_MAX = 1024 * 1024, USER_STR_MAX = 256 };

struct user {
	uid_t uid;
	gid_t gid;
	char name[USER_STR_MAX];  /* "" when the uid has no entry */
	char home[USER_STR_MAX];  /* absolute; "/" when unknown */
	char shell[USER_STR_MAX]; /* absolute; "/bin/sh" when unknown */
	gid_t groups[USER_GROUPS_MAX]; /* supplementary */
	uint32_t groups_n;
};

/*
 * Pure: find NAME or UID[:GID] in the text of a passwd file. A number needs no entry; its group is
 * then the entry's, else the same number. "root" needs none either.
 * 0, -ENOENT: no such name, -EINVAL: not a name or a number that is no id.
 */
int must_check user_find(const char *spec, size_t spec_len, const char *passwd, size_t n, struct user *ret);
/* Pure: the groups of a group file that list u->name; at most USER_GROUPS_MAX, the rest is left out. */
void user_groups(const char *group, size_t n, struct user *u);
/* Pure: the name of uid, copied into dst; "" when there is none. */
void user_name_of(const char *passwd, size_t n, uid_t uid, char dst[USER_STR_MAX]);
/* Pure: the name of gid in the text of a group file, as user_name_of. */
void user_group_name_of(const char *group, size_t n, gid_t gid, char dst[USER_STR_MAX]);
