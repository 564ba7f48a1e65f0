#include "guest/watch_set.h"

#include "base/num.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>

struct watched *watch_by_number(struct watch_set *s, int wd)
{
	for (size_t i = 0; i < s->n; i++) {
		if (s->all[i].path != NULL && s->all[i].wd == wd)
			return &s->all[i];
	}
	return NULL;
}

bool watch_add(struct watch_set *s, int wd, const char *path)
{
	char *copy = NULL;
	size_t i = 0;

	while (i < s->n && s->all[i].path != NULL)
		i++;
	if (i == s->cap) {
		size_t cap = s->cap == 0 ? 16 : 2 * s->cap;
		struct watched *v = cap > WATCHES_MAX ? NULL : reallocarray(s->all, cap, sizeof(*v));

		if (v == NULL)
			return false;
		s->all = v;
		s->cap = cap;
	}
	copy = strdup(path);
	if (copy == NULL)
		return false;
	s->all[i] = (struct watched){wd, copy};
	s->n = MAX(s->n, i + 1);
	return true;
}

void watched_drop(struct watched *p)
{
	free(p->path);
	p->path = NULL;
}

void watch_remember(struct watch_set *s, const char *path)
{
	if (s->seen_n == s->seen_cap) {
		size_t cap = s->seen_cap == 0 ? 64 : 2 * s->seen_cap;
		char **v = cap > SEEN_MAX ? NULL : reallocarray(s->seen, cap, sizeof(*v));

		if (v == NULL)
			return; /* at worst an event comes twice */
		s->seen = v;
		s->seen_cap = cap;
	}
	s->seen[s->seen_n] = strdup(path);
	if (s->seen[s->seen_n] != NULL)
		s->seen_n++;
}

bool watch_take(struct watch_set *s, const char *path)
{
	for (size_t i = 0; i < s->seen_n; i++) {
		if (strcmp(s->seen[i], path) == 0) {
			free(s->seen[i]);
			s->seen[i] = s->seen[--s->seen_n];
			return true;
		}
	}
	return false;
}

void watch_forget(struct watch_set *s)
{
	while (s->seen_n > 0)
		free(s->seen[--s->seen_n]);
}

static bool is_below(const char *path, const char *folder, size_t n)
{
	return strncmp(path, folder, n) == 0 && (path[n] == '/' || path[n] == '\0');
}

void watch_move(struct watch_set *s, int fd, const char *from, const char *to)
{
	size_t n = strlen(from);

	for (size_t i = 0; i < s->n; i++) {
		struct watched *p = &s->all[i];
		char full[4096], *copy;

		if (p->path == NULL || !is_below(p->path, from, n))
			continue;
		if (to == NULL) {
			(void)inotify_rm_watch(fd, p->wd);
			watched_drop(p);
			continue;
		}
		if (strlen(to) + strlen(p->path + n) >= sizeof(full))
			continue;
		(void)snprintf(full, sizeof(full), "%s%s", to, p->path + n);
		copy = strdup(full);
		if (copy == NULL)
			continue;
		free(p->path);
		p->path = copy;
	}
}
