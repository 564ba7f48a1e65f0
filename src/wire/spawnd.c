#include "wire/spawnd.h"

#include <errno.h>
#include <string.h>

/* Fed by brigd, which strangers speak with, and by brig-spawn. Keeps no state. */

#define LOWER  "abcdefghijklmnopqrstuvwxyz"
#define UPPER  "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define DIGITS "0123456789"

enum { ID_MIN = 8 };

/* A C string of at most max of these letters in a field of max + 4, zeros behind it. */
static bool field_ok(const char *f, size_t max, const char *of)
{
	size_t n = strnlen(f, max + 1);

	if (n > max || strspn(f, of) != n)
		return false;
	for (size_t i = n; i < max + 4; i++)
		if (f[i] != '\0')
			return false;
	return true;
}

static bool id_field_ok(const char *f) { return field_ok(f, SPAWND_ID_MAX, LOWER DIGITS); }
static bool name_field_ok(const char *f) { return field_ok(f, SPAWND_NAME_MAX, LOWER UPPER DIGITS "._-/"); }

bool spawnd_id_ok(const char *id)
{
	size_t n = strnlen(id, SPAWND_ID_MAX + 1);

	return n >= ID_MIN && n <= SPAWND_ID_MAX && strspn(id, LOWER DIGITS) == n;
}

static int text_limit(uint32_t op)
{
	switch (op) {
#define OP(id, nr, text, what, safe)                                                               \
	case nr:                                                                                   \
		return text;
#include "wire/spawnd_ops.def"
#undef OP
	default:
		return -1;
	}
}

#define BAD(e, what) err_set(e, ERR_INVALID, EPROTO, "malformed message: %s", what)

static int check_fields(const struct spawnd_ask *a, struct err *e)
{
	bool start = a->op == SPAWND_START, named = a->op != SPAWND_PING && a->op != SPAWND_LIST;
	bool rules = start || a->op == SPAWND_EGRESS;

	if (!id_field_ok(a->id) || (named ? !spawnd_id_ok(a->id) : a->id[0] != '\0'))
		return BAD(e, "id");
	if (!name_field_ok(a->template) || (a->template[0] != '\0') != start)
		return BAD(e, "template");
	if (!field_ok(a->tenant, SPAWND_NAME_MAX, LOWER UPPER DIGITS "._-") || (a->tenant[0] != '\0') != start)
		return BAD(e, "tenant");
	if (a->zero != 0 || (!start && a->timeout_ms != 0))
		return BAD(e, "timeout");
	if (a->egress > (rules ? (uint32_t)SPAWND_EGRESS_SET : 0u))
		return BAD(e, "egress");
	if ((a->text_n > 0) != (a->egress == SPAWND_EGRESS_NARROW || a->egress == SPAWND_EGRESS_SET))
		return BAD(e, "text");
	return 0;
}

int spawnd_ask_check(const void *p, size_t n, struct spawnd_ask *ret, const char **text, struct err *e)
{
	int limit;

	memset(ret, 0, sizeof(*ret));
	if (n < sizeof(*ret))
		return BAD(e, "too short");
	memcpy(ret, p, sizeof(*ret));
	limit = text_limit(ret->op);
	if (limit < 0)
		return BAD(e, "unknown operation");
	if (ret->text_n > (uint32_t)limit || n - sizeof(*ret) != ret->text_n)
		return BAD(e, "size");
	*text = (const char *)p + sizeof(*ret);
	return check_fields(ret, e);
}

int spawnd_tell_check(const void *p, size_t n, struct spawnd_tell *ret, const char **text, struct err *e)
{
	memset(ret, 0, sizeof(*ret));
	if (n < sizeof(*ret))
		return BAD(e, "too short");
	memcpy(ret, p, sizeof(*ret));
	if (ret->kind < SPAWND_REPLY || ret->kind > SPAWND_ENDED)
		return BAD(e, "kind");
	if (ret->text_n > SPAWND_END_MAX || n - sizeof(*ret) != ret->text_n)
		return BAD(e, "size");
	if (ret->fault >= ERR_KIND_COUNT || (ret->ret < 0) != (ret->fault != 0) || ret->ret > 0)
		return BAD(e, "result");
	if (!id_field_ok(ret->id) || (ret->kind != SPAWND_REPLY && !spawnd_id_ok(ret->id)))
		return BAD(e, "id");
	if (!name_field_ok(ret->template) || !name_field_ok(ret->tenant))
		return BAD(e, "name");
	if (memchr(ret->why, '\0', sizeof(ret->why)) == NULL)
		return BAD(e, "why");
	*text = (const char *)p + sizeof(*ret);
	return 0;
}
