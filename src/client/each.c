#include "client/each.h"

#include "cmd/say.h"

#include <errno.h>
#include <stdio.h>

int each_take(void *arg, int id, const char *value, struct err *e)
{
	(void)arg;
	(void)id;
	(void)value;
	(void)e;
	return 0;
}

int each_post(struct client *c, const char *id, const char *method, const char *what, json_t *body,
	      struct err *e)
{
	char path[128];
	int r;

	(void)snprintf(path, sizeof(path), "/v2/sandboxes/%s%s", id, what);
	r = api_call(c, method, path, body, JSON_OBJECT, NULL, e);
	json_decref(body);
	return r == -ENOENT ? api_missing(c, id, e) : r;
}

int each_run(struct client *c, char **argv, int n,
	     int (*one)(struct client *c, const char *id, void *arg, struct err *e), void *arg,
	     struct err *e)
{
	char id[BOX_ID_MAX + 1];
	int bad = 0, r;

	for (int i = 1; i <= n; i++) {
		struct err mine = ERR_INIT;

		r = api_find_id(c, argv[i], id, &mine);
		if (r == 0)
			r = one(c, id, arg, &mine);
		if (r == 0)
			continue;
		if (mine.kind == ERR_LOST || r == -EACCES) { /* the others would fail alike */
			*e = mine;
			return r;
		}
		bad++;
		(void)say_err(&mine);
	}
	return bad > 0 ? EXIT_FAULT : 0;
}
