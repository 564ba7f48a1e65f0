#include "parse/user.h"

#include "base/num.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

/*
 * Theory of operation: a file is split into lines and a line into ':' fields by pointers and
 * lengths; nothing is changed in place and nothing is trusted: a line with an id that is not a
 * plain number below 2^32 - 1 (which means "no change" to the kernel), a relative home folder or an
 * over-long field is skipped or cut back to a default. The parsers are pure and fuzzed.
 */

struct span {
	const char *p;
	size_t n;
};

static bool next_part(struct span *rest, char sep, struct span *ret)
{
	const char *end;

	if (rest->p == NULL)
		return false;
	end = memchr(rest->p, sep, rest->n);
	if (end == NULL) {
		*ret = *rest;
		*rest = (struct span){NULL, 0};
	} else {
		*ret = (struct span){rest->p, (size_t)(end - rest->p)};
		rest->n -= ret->n + 1;
		rest->p = end + 1;
	}
	return true;
}

static bool span_is(struct span s, const char *p, size_t n)
{
	return s.n == n && memcmp(s.p, p, n) == 0;
}

static bool span_id(struct span s, uint32_t *ret)
{
	uint64_t v = 0;

	if (s.n == 0 || s.n > 10)
		return false;
	for (size_t i = 0; i < s.n; i++) {
		if (s.p[i] < '0' || s.p[i] > '9')
			return false;
		v = v * 10 + (uint64_t)(s.p[i] - '0');
	}
	if (v >= UINT32_MAX)
		return false;
	*ret = (uint32_t)v;
	return true;
}

static void span_copy(struct span s, char dst[USER_STR_MAX], const char *otherwise)
{
	if (s.n == 0 || s.n >= USER_STR_MAX || memchr(s.p, '\0', s.n) != NULL ||
	    (otherwise[0] == '/' && s.p[0] != '/'))
		s = (struct span){otherwise, strlen(otherwise)};
	memcpy(dst, s.p, s.n);
	dst[s.n] = '\0';
}

struct line {
	struct span name, home, shell;
	uint32_t uid, gid;
};

static bool parse_line(struct span text, struct line *ret)
{
	struct span f[7];

	for (size_t i = 0; i < ARRAY_LEN(f); i++) {
		if (!next_part(&text, ':', &f[i]))
			return false;
	}
	if (f[0].n == 0 || f[0].n >= USER_STR_MAX || memchr(f[0].p, '\0', f[0].n) != NULL ||
	    !span_id(f[2], &ret->uid) || !span_id(f[3], &ret->gid))
		return false;
	ret->name = f[0];
	ret->home = f[5];
	ret->shell = f[6];
	return true;
}

/* The first entry with this name, or with this uid when name.p is NULL. */
static bool find_line(const char *passwd, size_t n, struct span name, uint32_t uid, struct line *ret)
{
	struct span rest = {passwd, n}, text;

	while (next_part(&rest, '\n', &text)) {
		if (!parse_line(text, ret))
			continue;
		if (name.p != NULL ? span_is(ret->name, name.p, name.n) : ret->uid == uid)
			return true;
	}
	return false;
}

static void from_line(const struct line *l, struct user *u)
{
	u->uid = l->uid;
	u->gid = l->gid;
	span_copy(l->name, u->name, "");
	span_copy(l->home, u->home, "/");
	span_copy(l->shell, u->shell, "/bin/sh");
}

int user_find(const char *spec, size_t spec_len, const char *passwd, size_t n, struct user *ret)
{
	struct user u = {.home = "/", .shell = "/bin/sh"};
	struct span rest = {spec, spec_len}, who, group = {NULL, 0};
	struct line l;

	if (spec_len == 0 || !next_part(&rest, ':', &who) || who.n == 0)
		return -EINVAL;
	if (rest.p != NULL)
		group = rest;
	if (who.p[0] >= '0' && who.p[0] <= '9') {
		if (!span_id(who, &u.uid))
			return -EINVAL;
		u.gid = u.uid;
		if (find_line(passwd, n, (struct span){NULL, 0}, u.uid, &l))
			from_line(&l, &u);
	} else if (find_line(passwd, n, who, 0, &l)) {
		from_line(&l, &u);
	} else if (span_is(who, "root", 4)) {
		u.uid = 0;
		u.gid = 0;
		memcpy(u.name, "root", 5);
		memcpy(u.home, "/root", 6);
	} else {
		return -ENOENT;
	}
	if (group.p != NULL && !span_id(group, &u.gid))
		return -EINVAL;
	*ret = u;
	return 0;
}

void user_groups(const char *group, size_t n, struct user *u)
{
	struct span rest = {group, n}, text, f[4], member;
	size_t name_len = strlen(u->name);
	uint32_t gid;

	while (name_len > 0 && u->groups_n < USER_GROUPS_MAX && next_part(&rest, '\n', &text)) {
		bool whole = true;

		for (size_t i = 0; i < ARRAY_LEN(f); i++)
			whole = whole && next_part(&text, ':', &f[i]);
		if (!whole || !span_id(f[2], &gid) || gid == u->gid)
			continue;
		while (next_part(&f[3], ',', &member)) {
			if (span_is(member, u->name, name_len)) {
				u->groups[u->groups_n++] = gid;
				break;
			}
		}
	}
}

void user_name_of(const char *passwd, size_t n, uid_t uid, char dst[USER_STR_MAX])
{
	struct line l;

	dst[0] = '\0';
	if (find_line(passwd, n, (struct span){NULL, 0}, uid, &l))
		span_copy(l.name, dst, "");
}

void user_group_name_of(const char *group, size_t n, gid_t gid, char dst[USER_STR_MAX])
{
	struct span rest = {group, n}, text, f[3];
	uint32_t id;

	dst[0] = '\0';
	while (next_part(&rest, '\n', &text)) {
		if (next_part(&text, ':', &f[0]) && next_part(&text, ':', &f[1]) && next_part(&text, ':', &f[2]) &&
		    span_id(f[2], &id) && id == gid) {
			span_copy(f[0], dst, "");
			return;
		}
	}
}
