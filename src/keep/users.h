#pragma once
/*
 * Whom a call acts as: the user its client named, else the sandbox's default. Looked up in the
 * sandbox's own passwd, for the home folder; the agent looks again, and only it decides.
 */
#include "parse/user.h"

struct keep;
struct talk;

struct keep_user {
	char spec[USER_STR_MAX]; /* as the agent is told */
	struct user is;
};

/*
 * Find the user of t and set t->user, then call `then`, perhaps before this returns. Failures are
 * told to the client. named: whom the body asks for; NULL = the head says it, or nobody does.
 */
void users_find(struct talk *t, const char *named, void (*then)(struct talk *t));
/* Stop looking. */
void users_stop(struct talk *t);
/* The sandbox is being claimed: nobody ran anything in it before, so what was read is true. */
void users_known(struct keep *k);
/* The sandbox ends. */
void users_done(struct keep *k);

/* An absolute path into dst[4096] from one that may begin with ~ or be relative to the home folder.
 * 0, -ENAMETOOLONG, -EINVAL for one with a NUL or without a character. */
int must_check users_path(const struct keep_user *u, const char *path, char dst[4096]);
