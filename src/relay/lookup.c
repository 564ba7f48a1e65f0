#include "relay/priv.h"

#include "base/num.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/*
 * Answers of the resolver, kept for a moment: the question a program asks for a name, the
 * connection it makes then and those that follow at once go by one resolution. What is kept is only
 * addresses: each is judged at each use. Failures are not kept. Nothing is shared between
 * sandboxes.
 */

enum { KEEP_MS = 2000, KEEP_MAX = 32 };

struct lookup {
	struct lookup *next;
	uint64_t at_ms;
	char name[JUDGE_NAME_MAX + 1];
	struct resolve_result res;
};

struct asking {
	struct box *b;
	resolve_fn fn;
	void *arg;
	char name[JUDGE_NAME_MAX + 1];
};

/* The newest is first; what is too old, or too many, goes. */
static struct lookup *find(struct box *b, const char *name)
{
	struct lookup **at = &b->lookups, *hit = NULL;

	for (uint32_t n = 0; *at != NULL; n++) {
		struct lookup *l = *at;

		if (b->loop->now_ms - l->at_ms >= KEEP_MS || n >= KEEP_MAX) {
			*at = l->next;
			free(l);
			continue;
		}
		if (strcmp(l->name, name) == 0)
			hit = l;
		at = &l->next;
	}
	return hit;
}

static void answered(void *arg, const struct resolve_result *res)
{
	struct asking a = *(struct asking *)arg;
	struct lookup *l;

	free(arg);
	if (res->err == 0 && find(a.b, a.name) == NULL && (l = malloc(sizeof(*l))) != NULL) {
		*l = (struct lookup){.next = a.b->lookups, .at_ms = a.b->loop->now_ms, .res = *res};
		memcpy(l->name, a.name, sizeof(l->name));
		a.b->lookups = l;
	}
	a.fn(a.arg, res);
}

void lookup(struct box *b, const char *name, resolve_fn fn, void *arg)
{
	const struct lookup *l = find(b, name);
	struct resolve_result res = {.err = EIO};
	struct asking *a;

	if (l != NULL) {
		res = l->res; /* fn may end the box's connections, but not this */
		fn(arg, &res);
		return;
	}
	a = calloc(1, sizeof(*a));
	if (a == NULL) {
		fn(arg, &res);
		return;
	}
	*a = (struct asking){.b = b, .fn = fn, .arg = arg};
	memcpy(a->name, name, strnlen(name, JUDGE_NAME_MAX));
	resolver_ask(b->resolver, name, answered, a);
}

void lookups_free(struct box *b)
{
	while (b->lookups != NULL) {
		struct lookup *l = b->lookups;

		b->lookups = l->next;
		free(l);
	}
}
