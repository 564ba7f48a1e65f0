#include "client/api.h"

#include "base/quote.h"
#include "base/suggest.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* People give the beginning of an id. A whole one is asked for at once; for all else the list is
 * read, which holds the caller's own sandboxes only. */

enum { ID_LEN = 21 }; /* of brigd's ids */

static int take_token(const json_t *o, const char *key, char dst[BOX_TOKEN_MAX + 1])
{
	const char *s = api_text(o, key);
	size_t n = s != NULL ? strlen(s) : 0;

	dst[0] = '\0';
	if (n > BOX_TOKEN_MAX)
		return -EPROTO;
	for (size_t i = 0; i < n; i++)
		if (s[i] <= ' ' || s[i] > '~')
			return -EPROTO;
	if (n > 0)
		memcpy(dst, s, n + 1);
	return 0;
}

static int take_box(const json_t *o, struct box_ref *ret, struct err *e)
{
	const char *id = api_text(o, "sandboxID"), *state = api_text(o, "state"),
		   *domain = api_text(o, "domain");

	if (id == NULL || !api_is_id(id) || take_token(o, "envdAccessToken", ret->token) < 0 ||
	    take_token(o, "trafficAccessToken", ret->traffic) < 0)
		return err_set(e, ERR_LOST, EPROTO,
			       "the daemon's answer about a sandbox is not what brigd says");
	(void)snprintf(ret->id, sizeof(ret->id), "%s", id);
	ret->domain[0] = '\0';
	if (domain != NULL && strlen(domain) < sizeof(ret->domain) &&
	    strspn(domain, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-:[]") ==
		strlen(domain))
		(void)snprintf(ret->domain, sizeof(ret->domain), "%s", domain);
	ret->paused = state != NULL && strcmp(state, "paused") == 0;
	return 0;
}

static int unknown(const char *word, const char *near, struct err *e)
{
	char q[QUOTE_MAX];

	(void)quote(word, q);
	if (near != NULL)
		return err_set(e, ERR_NOT_FOUND, ENOENT, "no sandbox %s: did you mean '%s'?", q,
			       near);
	return err_set(e, ERR_NOT_FOUND, ENOENT,
		       "no sandbox %s: it ended, or this key does not see it (brig ps)", q);
}

/* The only id of the list that begins with word. */
static int choose(const json_t *list, const char *word, char ret[BOX_ID_MAX + 1], struct err *e)
{
	struct suggest s = SUGGEST(word);
	size_t n = strlen(word), found = 0;
	char q[QUOTE_MAX];

	for (size_t i = 0; i < json_array_size(list); i++) {
		const char *id = api_text(json_array_get(list, i), "sandboxID");

		if (id == NULL || !api_is_id(id))
			continue;
		suggest_offer(&s, id);
		if (strncmp(id, word, n) != 0)
			continue;
		if (found++ == 0)
			(void)snprintf(ret, BOX_ID_MAX + 1, "%s", id);
		if (strcmp(id, word) == 0) {
			(void)snprintf(ret, BOX_ID_MAX + 1, "%s", id);
			return 0;
		}
	}
	if (found > 1)
		return err_set(e, ERR_INVALID, EINVAL,
			       "%zu sandboxes begin with %s: give more of the id", found,
			       quote(word, q));
	return found == 1 ? 0 : unknown(word, s.best, e);
}

int api_find_id(struct client *c, const char *word, char ret[BOX_ID_MAX + 1], struct err *e)
{
	json_t *list = NULL;
	int r;

	if (!api_is_id(word))
		return unknown(word, NULL, e);
	if (strlen(word) == ID_LEN) {
		memcpy(ret, word, ID_LEN + 1);
		return 0;
	}
	r = api_list(c, "", &list, e);
	if (r == 0)
		r = choose(list, word, ret, e);
	json_decref(list);
	return r;
}

int api_missing(struct client *c, const char *word, struct err *e)
{
	char id[BOX_ID_MAX + 1];
	json_t *list = NULL;
	int r = api_list(c, "", &list, e);

	if (r == 0 && choose(list, word, id, e) == 0)
		r = unknown(word, NULL, e); /* it came back, or another did */
	json_decref(list);
	return r < 0 ? r : -ENOENT;
}

int api_find(struct client *c, const char *word, bool running, struct box_ref *ret, struct err *e)
{
	char id[BOX_ID_MAX + 1], path[128];
	json_t *o = NULL;
	int r = api_find_id(c, word, id, e);

	if (r < 0)
		return r;
	(void)snprintf(path, sizeof(path), "/v2/sandboxes/%s", id);
	r = api_call(c, "GET", path, NULL, JSON_OBJECT, &o, e);
	if (r == -ENOENT)
		return api_missing(c, word, e);
	if (r == 0)
		r = take_box(o, ret, e);
	json_decref(o);
	if (r == 0 && running && ret->paused)
		r = err_set(e, ERR_CONFLICT, EBUSY,
			    "sandbox %s is paused: 'brig resume %s' lets it go on", ret->id,
			    ret->id);
	return r;
}
