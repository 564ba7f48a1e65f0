#include "keep/code_event.h"

#include "base/num.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/*
 * Read into values and written anew, so that nothing but what is known here reaches a client, and
 * every line is whole and in ASCII. The number of values is bounded before: each costs many times
 * the bytes it was written with.
 */

enum kind { TEXT, COUNT, FLAG, OBJECT, ANY };
enum { FIELDS_MAX = 16 };

static const struct {
	const char *type;
	struct {
		const char *name;
		enum kind kind;
		bool needed;
	} field[FIELDS_MAX];
} rows[] = {
/* clang-format off */
#define FIELD(name, kind, needed) {#name, kind, needed},
#define EVENT(id, type, ...) [CODE_##id] = {type, {__VA_ARGS__}},
#include "keep/code_events.def"
#undef EVENT
#undef FIELD
    /* clang-format on */
};

static bool is(enum kind kind, const json_t *v)
{
	switch (kind) {
	case TEXT:
		return json_is_string(v);
	case COUNT:
		return json_is_integer(v) && json_integer_value(v) >= 0;
	case FLAG:
		return json_is_boolean(v);
	case OBJECT:
		return json_is_object(v);
	case ANY:
		break;
	}
	return v != NULL;
}

/* Every field of the row that is needed, and no other. A null is no field. */
static bool fields_ok(json_t *o, size_t row)
{
	size_t known = 1; /* type */

	for (size_t i = 0; i < FIELDS_MAX && rows[row].field[i].name != NULL; i++) {
		const char *name = rows[row].field[i].name;
		const json_t *v = json_object_get(o, name);

		if (json_is_null(v)) {
			(void)json_object_del(o, name);
			v = NULL;
		}
		if (v == NULL ? rows[row].field[i].needed : !is(rows[row].field[i].kind, v))
			return false;
		known += v != NULL;
	}
	return json_object_size(o) == known;
}

/* Commas and brackets outside strings: at least as many as there are values, but one. */
static bool too_many(const uint8_t *p, size_t n)
{
	size_t values = 0;
	bool text = false;

	for (size_t i = 0; i < n; i++) {
		if (p[i] == '"')
			text = !text;
		else if (text && p[i] == '\\')
			i++;
		else if (!text)
			values += p[i] == ',' || p[i] == '[' || p[i] == '{';
	}
	return values > CODE_VALUES_MAX;
}

int code_event(const void *p, size_t n, json_t **ret)
{
	const char *type;
	json_t *o;

	*ret = NULL;
	if (n > CODE_LINE_MAX || too_many(p, n))
		return -E2BIG;
	o = n == 0 ? NULL : json_loadb(p, n, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
	type = json_string_value(json_object_get(o, "type"));
	for (size_t i = 0; type != NULL && i < ARRAY_LEN(rows); i++)
		if (strcmp(type, rows[i].type) == 0 && fields_ok(o, i)) {
			*ret = o;
			return (int)i;
		}
	json_decref(o);
	return -EPROTO;
}

static int put(const char *p, size_t n, void *arg) { return buf_put(arg, p, n); }

int code_event_put(struct buf *b, json_t *event)
{
	if (json_dump_callback(event, put, b, JSON_COMPACT | JSON_ENSURE_ASCII) < 0)
		return -ENOBUFS;
	return buf_put(b, "\n", 1);
}
