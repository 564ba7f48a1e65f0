#include "keep/files.h"

#include "keep/finfo.h"
#include "keep/talk.h"
#include "keep/text.h"
#include "wire/request.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* Metadata of a file: fields of the request's head, which is a client's, made into extended
 * attributes, and told again in the answer. */

enum { METADATA_MAX = 4096, KEY_MAX = 246 };

static bool is_key(const char *name) { return strncmp(name, "x-metadata-", 11) == 0; }

int files_metadata(const struct talk *t, struct msg_writer *w)
{
	char pair[sizeof(FINFO_METADATA) + KEY_MAX + 1 + METADATA_MAX];
	size_t all = 0;

	msg_str(w, F_XATTRS, FINFO_METADATA);
	for (uint32_t i = 0; i < t->head.fields_n; i++) {
		const struct call_field *f = &t->head.field[i];
		size_t key, value = strlen(f->value);

		if (!is_key(f->name))
			continue;
		key = strlen(f->name + 11);
		all += key + value;
		if (key == 0 || key > KEY_MAX || all > METADATA_MAX)
			return -EINVAL;
		for (const char *s = f->value; *s != '\0'; s++)
			if (*s < ' ' || *s > '~')
				return -EINVAL;
		(void)snprintf(pair, sizeof(pair), FINFO_METADATA "%s=%s", f->name + 11, f->value);
		msg_str(w, F_XATTR, pair);
	}
	return 0;
}

static int answer_metadata(const struct talk *t, struct buf *b)
{
	bool any = false;
	int r = 0;

	for (uint32_t i = 0; r == 0 && i < t->head.fields_n; i++) {
		const struct call_field *f = &t->head.field[i];

		if (!is_key(f->name))
			continue;
		r = text_put(b, any ? "," : ",\"metadata\":{");
		any = true;
		if (r == 0)
			r = text_put_json(b, f->name + 11, strlen(f->name + 11));
		if (r == 0)
			r = text_put(b, ":");
		if (r == 0)
			r = text_put_json(b, f->value, strlen(f->value));
	}
	return r == 0 && any ? text_put(b, "}") : r;
}

int files_written(const struct talk *t, const char *path, struct buf *b)
{
	const char *name = strrchr(path, '/') + 1;
	int r = text_put(b, "{\"path\":");

	if (r == 0)
		r = text_put_json(b, path, strlen(path));
	if (r == 0)
		r = text_put(b, ",\"name\":");
	if (r == 0)
		r = text_put_json(b, name, strlen(name));
	if (r == 0)
		r = text_put(b, ",\"type\":\"file\"");
	if (r == 0)
		r = answer_metadata(t, b);
	return r == 0 ? text_put(b, "}") : r;
}
