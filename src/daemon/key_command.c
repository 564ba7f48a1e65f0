/* `brigd key`: it opens the store itself, since the first key is made before there is a daemon to ask. */
#include "base/cleanup.h"
#include "base/units.h"
#include "daemon/daemon.h"
#include "daemon/key.h"
#include "parse/stamp.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

static void show_key(const struct store_key *k, void *arg)
{
	const char *word;
	size_t at = 0;
	bool first = true;

	(void)arg;
	printf("%s  %-16s %-16s ", k->id, k->tenant, k->name[0] != '\0' ? k->name : "-");
	while ((word = key_scope_word(k->scopes, &at)) != NULL) {
		printf("%s%s", first ? "" : ",", word);
		first = false;
	}
	if (k->expires_ms == 0)
		puts("  never expires");
	else
		printf("  %s\n", k->expires_ms <= daemon_now_ms() ? "expired" : "expires");
}

struct key_rows {
	json_t *all;
	bool failed;
};

static void gather_key(const struct store_key *k, void *arg)
{
	json_t *scopes = json_array(), *name = k->name[0] != '\0' ? json_string(k->name) : NULL, *o;
	struct key_rows *rows = arg;
	char created[STAMP_SIZE], expires[STAMP_SIZE];
	const char *word;
	size_t at = 0;

	if (name == NULL && k->name[0] != '\0') /* of an earlier brigd, which took any bytes */
		name = json_string("?");
	while ((word = key_scope_word(k->scopes, &at)) != NULL)
		rows->failed |= json_array_append_new(scopes, json_string(word)) < 0;
	(void)stamp_text(k->created_ms / 1000, 0, 0, created);
	(void)stamp_text(k->expires_ms / 1000, 0, 0, expires);
	o = json_pack("{s:s,s:s,s:o*,s:o,s:s}", "id", k->id, "tenant", k->tenant, "name", name, "scopes", scopes, "created", created);
	rows->failed |= json_object_set_new(o, "expires", k->expires_ms != 0 ? json_string(expires) : json_null()) < 0 ||
			json_array_append_new(rows->all, o) < 0;
}

static int key_list(struct store *s, bool json, struct err *e)
{
	struct key_rows rows = {.all = json ? json_array() : NULL};
	char *text = NULL;
	int r = store_keys(s, json ? gather_key : show_key, &rows, e);

	if (r == 0 && json && !rows.failed) /* one that is left out could not be revoked */
		text = json_dumps(rows.all, JSON_COMPACT | JSON_ENSURE_ASCII);
	if (r == 0 && json)
		r = text == NULL ? err_no_memory(e) : 0;
	if (text != NULL)
		puts(text);
	free(text);
	json_decref(rows.all);
	return r;
}

static int create(const struct key_words *k, struct store *s, const struct seal *seal, struct err *e)
{
	char key[KEY_SIZE];
	uint32_t scopes;
	uint64_t span_ms = 0;
	int r = key_scopes(k->scopes, &scopes, e);

	if (r == 0 && k->expires != NULL)
		r = units_duration(k->expires, &span_ms, e);
	if (r == 0)
		r = key_make(s, seal, k->tenant, k->name, scopes, daemon_now_ms(),
			     span_ms > 0 ? daemon_now_ms() + (int64_t)span_ms : 0, key, e);
	if (r == 0)
		puts(key);
	return r;
}

int key_command(const char *state, const struct key_words *k, char **words, int n, struct err *e)
{
	_cleanup_close_ int dir_fd = open(state, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct store *s = NULL;
	struct seal seal;
	int r;

	if (dir_fd < 0)
		return err_set(e, ERR_DENIED, errno, "open the state folder %s: %s", state, strerror(errno));
	r = seal_open(dir_fd, &seal, e);
	if (r == 0)
		r = store_open(state, &s, e);
	if (r == 0 && n == 1 && strcmp(words[0], "create") == 0)
		r = create(k, s, &seal, e);
	else if (r == 0 && n == 1 && strcmp(words[0], "list") == 0)
		r = key_list(s, k->json, e);
	else if (r == 0 && n == 2 && strcmp(words[0], "remove") == 0) {
		r = store_key_remove(s, words[1], e);
		if (r == -ENOENT)
			r = err_set(e, ERR_NOT_FOUND, ENOENT, "there is no key %.32s", words[1]);
	} else if (r == 0) {
		r = err_set(e, ERR_INVALID, EINVAL, "key: create, list or remove ID; see --help");
	}
	store_close(s);
	return r;
}
