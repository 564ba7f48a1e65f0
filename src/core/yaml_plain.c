#include "core/yaml_plain.h"
/* See the header. Fed by the profile and recipe readers; fuzzed through them. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int yaml_plain_say(struct yaml_plain *y, int line, const char *fmt, ...)
{
	char text[200];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	return err_set(y->e, ERR_INVALID, EINVAL, "%.100s:%d: %s", y->file, line, text);
}

int yaml_plain_open(struct yaml_plain *y, const char *text, size_t len)
{
	y->have_ev = false;
	if (yaml_parser_initialize(&y->parser) == 0)
		return err_set(y->e, ERR_INTERNAL, ENOMEM, "%.100s: out of memory", y->file);
	yaml_parser_set_encoding(&y->parser, YAML_UTF8_ENCODING);
	yaml_parser_set_input_string(&y->parser, (const unsigned char *)text, len);
	return 0;
}

void yaml_plain_done(struct yaml_plain *y)
{
	if (y->have_ev)
		yaml_event_delete(&y->ev);
	y->have_ev = false;
	yaml_parser_delete(&y->parser);
}

static int refuse_extras(struct yaml_plain *y, const yaml_char_t *anchor, const yaml_char_t *tag)
{
	if (anchor != NULL)
		return yaml_plain_say(y, yaml_plain_line(y), "anchors ('&') are not allowed in a %s", y->kind);
	if (tag != NULL)
		return yaml_plain_say(y, yaml_plain_line(y), "tags ('!') are not allowed in a %s", y->kind);
	return 0;
}

int yaml_plain_next(struct yaml_plain *y)
{
	if (y->have_ev)
		yaml_event_delete(&y->ev);
	y->have_ev = false;
	if (yaml_parser_parse(&y->parser, &y->ev) == 0) {
		const char *why = y->parser.problem != NULL ? y->parser.problem : "out of memory";

		return yaml_plain_say(y, (int)y->parser.problem_mark.line + 1, "not YAML: %s", why);
	}
	y->have_ev = true;
	if (y->ev.type == YAML_ALIAS_EVENT)
		return yaml_plain_say(y, yaml_plain_line(y), "aliases ('*') are not allowed in a %s", y->kind);
	if (y->ev.type == YAML_MAPPING_START_EVENT)
		return refuse_extras(y, y->ev.data.mapping_start.anchor, y->ev.data.mapping_start.tag);
	if (y->ev.type == YAML_SEQUENCE_START_EVENT)
		return refuse_extras(y, y->ev.data.sequence_start.anchor, y->ev.data.sequence_start.tag);
	if (y->ev.type != YAML_SCALAR_EVENT)
		return 0;
	if (strlen(yaml_plain_word(y)) != y->ev.data.scalar.length)
		return yaml_plain_say(y, yaml_plain_line(y), "a value holds a NUL byte");
	return refuse_extras(y, y->ev.data.scalar.anchor, y->ev.data.scalar.tag);
}

int yaml_plain_begin(struct yaml_plain *y, const char *needs)
{
	int r = yaml_plain_next(y); /* stream start */

	if (r == 0)
		r = yaml_plain_next(y);
	if (r < 0)
		return r;
	if (y->ev.type != YAML_DOCUMENT_START_EVENT)
		return yaml_plain_say(y, 1, "the file is empty: it needs at least '%s'", needs);
	r = yaml_plain_next(y);
	if (r == 0 && y->ev.type != YAML_MAPPING_START_EVENT)
		r = yaml_plain_say(y, yaml_plain_line(y), "a map of keys and values is expected, such as '%s'", needs);
	return r;
}

int yaml_plain_end(struct yaml_plain *y)
{
	int r = yaml_plain_next(y); /* document end */

	if (r == 0)
		r = yaml_plain_next(y);
	if (r == 0 && y->ev.type != YAML_STREAM_END_EVENT)
		r = yaml_plain_say(y, yaml_plain_line(y), "a %s is one document: a second one begins here", y->kind);
	return r;
}
