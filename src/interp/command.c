/*
 * Commands of the keeper, one JSON object a line, for the kernel they go to: a shell gets them as
 * shell commands, the others as they came. The keeper is trusted, but its words are a client's.
 */
#include "interp/interp.h"

#include <errno.h>
#include <jansson.h>
#include <string.h>

static int puts_b(struct buf *b, const char *s) { return buf_put(b, s, strlen(s)); }

/* s in $'...': any byte but NUL, as one line. */
static int put_word(struct buf *b, const char *s)
{
	size_t n = strlen(s);
	uint8_t *w = buf_reserve(b, 4 * n + 8), *start = w;

	if (w == NULL)
		return -ENOBUFS;
	w = (uint8_t *)mempcpy(w, " $'", 3);
	for (; *s != '\0'; s++) {
		if (*s == '\'' || *s == '\\') {
			*w++ = '\\';
			*w++ = (uint8_t)*s;
		} else if ((uint8_t)*s <
			   0x20) { /* three digits always: the next character may be one */
			*w++ = '\\';
			*w++ = '0';
			*w++ = (uint8_t)('0' + (*s >> 3));
			*w++ = (uint8_t)('0' + (*s & 7));
		} else {
			*w++ = (uint8_t)*s;
		}
	}
	*w++ = '\'';
	buf_commit(b, (size_t)(w - start));
	return 0;
}

/* " NAME VALUE ..." */
static int put_env(struct buf *b, json_t *env)
{
	const char *name;
	json_t *value;
	int r = 0;

	json_object_foreach(env, name, value) if (r == 0 && (r = put_word(b, name)) == 0) r =
	    put_word(b, json_string_value(value));
	return r;
}

static int shell_command(struct buf *b, const char *op, const char *cwd, const char *code,
			 json_t *env)
{
	bool setup = strcmp(op, "setup") == 0;

	if (puts_b(b, setup ? "__brig_setup" : "__brig_env") < 0 ||
	    (setup && put_word(b, cwd ? cwd : "") < 0) || put_env(b, env) < 0)
		return -ENOBUFS;
	if (setup)
		return puts_b(b, "\n");
	/* The end is a line of its own: an interrupt drops the rest of the first. */
	if (puts_b(b, "; eval --") < 0 || put_word(b, code) < 0)
		return -ENOBUFS;
	return puts_b(b, " </dev/null\n__brig_end\n");
}

static bool env_ok(json_t *env)
{
	const char *name;
	json_t *value;

	if (env != NULL && !json_is_object(env))
		return false;
	json_object_foreach(env, name, value) if (!json_is_string(value)) return false;
	return true;
}

int interp_command(const struct interp_kernel *k, const void *line, size_t n, struct buf *b,
		   bool *ret_execute)
{
	json_t *c = json_loadb(line, n, JSON_REJECT_DUPLICATES, NULL);
	const char *op = json_string_value(json_object_get(c, "op"));
	const char *code = json_string_value(json_object_get(c, "code"));
	const char *cwd = json_string_value(json_object_get(c, "cwd"));
	json_t *env = json_object_get(c, "env");
	bool interrupt = op != NULL && strcmp(op, "interrupt") == 0;
	int r = -EPROTO;

	*ret_execute = op != NULL && strcmp(op, "execute") == 0;
	if (op == NULL || !env_ok(env) || (*ret_execute && code == NULL))
		goto out;
	if (interrupt)
		r = k->told && puts_b(b, "{\"op\":\"interrupt\"}\n") < 0 ? -ENOBUFS : 1;
	else if (!*ret_execute && strcmp(op, "setup") != 0)
		r = -EPROTO;
	else if (k->style == STYLE_SHELL)
		r = shell_command(b, op, cwd, code, env);
	else if ((r = buf_put(b, line, n)) == 0)
		r = puts_b(b, "\n");
out:
	json_decref(c);
	return r;
}
