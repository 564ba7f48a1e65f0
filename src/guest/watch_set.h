#pragma once
/* What a WATCH knows: the folders it watches, and the names it has listed before their events came. Paths are relative to
 * the request's. */
#include <stdbool.h>
#include <stddef.h>

enum { WATCHES_MAX = 16384, SEEN_MAX = 16384 };

struct watched {
	int wd;     /* inotify's number of it */
	char *path; /* "" = the request's own; NULL = free slot */
};
struct watch_set {
	struct watched *all;
	size_t n, cap;
	char **seen;
	size_t seen_n, seen_cap;
};

struct watched *watch_by_number(struct watch_set *s, int wd); /* NULL = none */
/* path is copied. False: no room, or no memory. */
bool watch_add(struct watch_set *s, int wd, const char *path);
void watched_drop(struct watched *p);
/* The folder `from` is now called `to`; to == NULL: it left the tree, and is not watched by fd any more. */
void watch_move(struct watch_set *s, int fd, const char *from, const char *to);

/* A name was listed. Without room it is not kept: at worst an event comes twice. */
void watch_remember(struct watch_set *s, const char *path);
/* True when it was listed; forgotten by that. */
bool watch_take(struct watch_set *s, const char *path);
void watch_forget(struct watch_set *s);
