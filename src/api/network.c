/*
 * Fed by clients. The API's model: allow beats deny, nothing said means everything, a name's wildcard is of any depth. brig's:
 * deny beats allow, the default is deny, ports are named. So:
 *
 *   nothing said                        what the template's profile permits
 *   deny all, or no internet            nothing
 *   deny all, allow A, B                rules for A and B at any port, in place of the profile's
 *   deny A, B (addresses only)          the profile's rules, less A and B
 *   allow without deny all              refused: it would mean an open internet beside A and B
 */
#include "api/network.h"

#include "base/buf.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ENTRIES_MAX = 256, TEXT_MAX = 60000, WORD_MAX = 260 };

static const char all[] = "0.0.0.0/0";

static int refuse(struct err *e, const char *what, const char *why)
{
	return err_set(e, ERR_INVALID, EINVAL, "network: %s%s", what, why);
}

/* An IPv4 or IPv6 address, with a prefix length or without. */
static bool is_range(const char *s)
{
	char host[64];
	uint8_t bytes[16];
	const char *slash = strchr(s, '/');
	size_t n = slash != NULL ? (size_t)(slash - s) : strlen(s);
	long bits = 0;
	bool four;

	if (n == 0 || n >= sizeof(host))
		return false;
	memcpy(host, s, n);
	host[n] = '\0';
	four = inet_pton(AF_INET, host, bytes) == 1;
	if (!four && inet_pton(AF_INET6, host, bytes) != 1)
		return false;
	if (slash == NULL)
		return true;
	if (slash[1] == '\0' || strlen(slash + 1) > 3 || strspn(slash + 1, "0123456789") != strlen(slash + 1))
		return false;
	bits = strtol(slash + 1, NULL, 10);
	return bits <= (four ? 32 : 128);
}

static bool is_name(const char *s)
{
	static const char set[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.";

	if (strncmp(s, "*.", 2) == 0)
		s += 2;
	return s[0] != '\0' && strlen(s) < 254 && strspn(s, set) == strlen(s) && strchr(s, '.') != NULL;
}

static int check_list(const json_t *list, const char *key, bool names, bool *ret_all, bool *ret_names, struct err *e)
{
	char what[64];
	const json_t *v;
	size_t i;

	(void)snprintf(what, sizeof(what), "%s", key);
	if (!json_is_array(list) || json_array_size(list) > ENTRIES_MAX)
		return refuse(e, what, " must be a list of at most 256 strings");
	json_array_foreach(list, i, v)
	{
		const char *s = json_string_value(v);

		if (s == NULL || strlen(s) >= WORD_MAX)
			return refuse(e, what, " must be a list of strings");
		if (strcmp(s, all) == 0 || strcmp(s, "::/0") == 0)
			*ret_all = true;
		else if (is_range(s))
			continue;
		else if (!names)
			return err_set(e, ERR_INVALID, EINVAL, "invalid denied CIDR %.64s", s);
		else if (!is_name(s))
			return err_set(e, ERR_INVALID, EINVAL, "network: %s: '%.64s' is no address, range or name", key, s);
		else
			*ret_names = true;
	}
	return 0;
}

static int add(struct buf *b, const char *before, const char *word, const char *after)
{
	int r = buf_put(b, before, strlen(before));

	if (r == 0)
		r = buf_put(b, word, strlen(word));
	return r == 0 ? buf_put(b, after, strlen(after)) : r;
}

static int text_of(struct buf *b, char **ret, struct err *e)
{
	*ret = b->len > 0 ? strndup((const char *)buf_head(b), b->len) : NULL;
	return *ret == NULL ? err_no_memory(e) : 0;
}

/* A document of brig-egress(5), `key` rules or deny: each entry is checked to be a name or a range, so none needs quoting
 * beyond "". */
static int document(const char *key, const json_t *list, const char *what, char **ret, struct err *e)
{
	struct buf b = {.max = TEXT_MAX};
	const json_t *v;
	size_t i;
	int r = add(&b, "version: 1\n", key, ":\n");

	json_array_foreach(list, i, v)
	{
		const char *s = json_string_value(v);
		bool range = is_range(s);

		if (r == 0)
			r = range ? add(&b, "  - cidr: \"", s, strchr(s, '/') != NULL ? "\"\n" : strchr(s, ':') != NULL ? "/128\"\n" : "/32\"\n")
				  : add(&b, strncmp(s, "*.", 2) == 0 ? "  - host: \"*" : "  - host: \"", s, "\"\n");
		if (r == 0)
			r = add(&b, "    ports: [", "1-65535", "]\n");
	}
	r = r < 0 ? refuse(e, what, " is too long") : text_of(&b, ret, e);
	buf_done(&b);
	return r;
}

static int rules(const json_t *allow, const json_t *deny, bool no_internet, struct network *ret, struct err *e)
{
	bool deny_all = no_internet, allow_all = false, names = false, unused = false;
	int r = allow != NULL ? check_list(allow, "allowOut", true, &allow_all, &names, e) : 0;

	if (r == 0 && deny != NULL)
		r = check_list(deny, "denyOut", false, &deny_all, &unused, e);
	if (r < 0)
		return r;
	if (allow_all)
		return refuse(e, "allowOut", ": an open internet is not brig's to give: leave it out for what the template permits");
	if (json_array_size(allow) > 0 && !deny_all)
		return names ? err_set(e, ERR_INVALID, EINVAL,
				       "When specifying allowed domains in allow out, you must include 'ALL_TRAFFIC' in deny "
				       "out to block all other traffic.")
			     : refuse(e, "allowOut", " needs 0.0.0.0/0 in denyOut: brig opens nothing beside what is named");
	ret->no_internet = deny_all && json_array_size(allow) == 0;
	if (json_array_size(allow) > 0) {
		ret->egress = SPAWND_EGRESS_SET;
		return document("rules", allow, "allowOut", &ret->text, e);
	}
	if (deny_all) {
		ret->egress = SPAWND_EGRESS_NONE;
		return 0;
	}
	if (json_array_size(deny) > 0) {
		ret->egress = SPAWND_EGRESS_NARROW;
		return document("deny", deny, "denyOut", &ret->text, e);
	}
	return 0;
}

int network_read(const json_t *o, bool no_internet, bool update, struct network *ret, struct err *e)
{
	const json_t *allow = NULL, *deny = NULL, *v;
	const char *key;

	*ret = (struct network){.egress = SPAWND_EGRESS_TEMPLATE};
	if (o != NULL && !json_is_object(o))
		return refuse(e, "", "an object is wanted");
	for (void *it = json_object_iter((json_t *)(uintptr_t)o); it != NULL; // NOLINT(performance-no-int-to-ptr)
	     it = json_object_iter_next((json_t *)(uintptr_t)o, it)) { // NOLINT(performance-no-int-to-ptr)
		key = json_object_iter_key(it);
		v = json_object_iter_value(it);
		if (json_is_null(v))
			continue;
		if (strcmp(key, "allowOut") == 0) {
			allow = v;
		} else if (strcmp(key, "denyOut") == 0) {
			deny = v;
		} else if (!update && strcmp(key, "allowPublicTraffic") == 0 && json_is_boolean(v)) {
			ret->private_traffic = json_is_false(v);
		} else if (update && strcmp(key, "allow_internet_access") == 0 && json_is_boolean(v)) {
			no_internet = json_is_false(v);
		} else if (strcmp(key, "rules") == 0 || strcmp(key, "httpsPorts") == 0) {
			if (json_object_size(v) + json_array_size(v) > 0)
				return refuse(e, key, ": brig cannot do that; write it into the template's egress rules");
		} else {
			return refuse(e, key, ": unknown, of the wrong type, or something brig cannot do");
		}
	}
	return rules(allow, deny, no_internet, ret, e);
}
