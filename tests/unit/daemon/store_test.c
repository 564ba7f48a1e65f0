#include "base/cleanup.h"
#include "daemon/key.h"

#include "harness/test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static char dir[] = "/tmp/brig-store-XXXXXX";
static struct store *store;
static struct seal seal;
static struct err e;

static void remove_dir(void)
{
	static const char *const names[] = {"brigd.db", "brigd.db-wal", "brigd.db-shm", "secret"};
	_cleanup_close_ int fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);

	for (size_t i = 0; i < 4; i++)
		(void)unlinkat(fd, names[i], 0);
	(void)rmdir(dir);
}

TEST(a_secret_is_made_once_and_must_be_ours_alone)
{
	_cleanup_close_ int fd = -1;
	char a[SEAL_TOKEN_SIZE], b[SEAL_TOKEN_SIZE];
	struct seal again;

	CHECK(mkdtemp(dir) != NULL && atexit(remove_dir) == 0);
	fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK(seal_open(fd, &seal, &e) == 0 && seal_open(fd, &again, &e) == 0);
	seal_token(&seal, "access", "i1", a);
	seal_token(&again, "access", "i1", b);
	CHECK(strlen(a) == 64 && strcmp(a, b) == 0);
	seal_token(&seal, "traffic", "i1", b);
	CHECK(strcmp(a, b) != 0);
	seal_token(&seal, "access", "i2", b);
	CHECK(strcmp(a, b) != 0 && seal_same(a, a) && !seal_same(a, b) && !seal_same("", a));
	CHECK(fchmodat(fd, "secret", 0644, 0) == 0 && seal_open(fd, &again, &e) == -EPERM);
	CHECK(fchmodat(fd, "secret", 0600, 0) == 0);
}

static void count(const struct store_key *k, void *arg) { *(int *)arg += k->tenant[0] != '\0'; }

TEST(keys_are_made_checked_and_removed)
{
	char key[KEY_SIZE], other[KEY_SIZE], id[STORE_KEY_ID_SIZE];
	struct store_key k;
	int n = 0;

	CHECK(store_open(dir, &store, &e) == 0);
	CHECK(key_make(store, &seal, "acme", "ci", SCOPE_READ, 1000, 2000, key, &e) == 0);
	CHECK(key_make(store, &seal, "other", "", SCOPE_WRITE, 1000, 0, other, &e) == 0);
	CHECK(key_make(store, &seal, "a/b", "", SCOPE_WRITE, 1000, 0, other, &e) == -EINVAL);
	CHECK(strncmp(key, "e2b_", 4) == 0 && strspn(key + 4, "0123456789abcdef") == 64);
	CHECK(key_check(store, &seal, key, 1500, &k, &e) == 0);
	CHECK(strcmp(k.tenant, "acme") == 0 && strcmp(k.name, "ci") == 0 && k.scopes == SCOPE_READ);
	CHECK(key_check(store, &seal, key, 2000, &k, &e) == -EACCES); /* expired */
	memcpy(id, k.id, sizeof(id));
	key[60] = key[60] == '0' ? '1' : '0';
	CHECK(key_check(store, &seal, key, 1500, &k, &e) == -EACCES);
	CHECK(key_check(store, &seal, "", 1500, &k, &e) == -EACCES);
	CHECK(key_check(store, &seal, "e2b_1", 1500, &k, &e) == -EACCES);
	CHECK(store_keys(store, count, &n, &e) == 0 && n == 2);
	CHECK(store_key_remove(store, id, &e) == 0 && store_key_remove(store, id, &e) == -ENOENT);
}

TEST(scopes_are_words)
{
	uint32_t set = 0;
	size_t at = 0;

	CHECK(key_scopes("write,read", &set, &e) == 0 && set == (SCOPE_READ | SCOPE_WRITE));
	CHECK(key_scopes("read,", &set, &e) == -EINVAL && key_scopes("", &set, &e) == -EINVAL);
	CHECK(strcmp(key_scope_word(SCOPE_WRITE, &at), "write") == 0 && key_scope_word(SCOPE_WRITE, &at) == NULL);
}

static void line(const struct store_line *l, void *arg) { strcat(arg, l->message); }

TEST(sandboxes_are_found_again_and_end_once)
{
	char got[64] = "";
	struct box_table t, u;
	struct box *b, *c;

	CHECK(box_table_open(&t) == 0 && box_table_open(&u) == 0);
	b = box_add(&t, "iaaaaaaaa", BOX_RUNNING);
	CHECK(b != NULL && json_object_set_new(b->metadata, "k", json_string("v")) == 0);
	strcpy(b->tenant, "acme");
	strcpy(b->template, "base");
	b->started_ms = 5;
	b->ends_ms = 77;
	b->pause_at_end = true;
	CHECK(store_box_put(store, b, &e) == 0);
	box_state_set(&t, b, BOX_PAUSED);
	CHECK(store_box_put(store, b, &e) == 0);
	store_close(store);
	CHECK(store_open(dir, &store, &e) == 0 && store_boxes(store, &u, &e) == 0);
	c = box_find(&u, "iaaaaaaaa");
	CHECK(u.n == 1 && c != NULL && c->state == BOX_PAUSED && c->ends_ms == 77 && c->started_ms == 5);
	CHECK(strcmp(c->tenant, "acme") == 0 && c->pause_at_end && !c->auto_resume);
	CHECK(json_equal(b->metadata, c->metadata));
	CHECK(store_box_end(store, "iaaaaaaaa", "killed", "{}", 100, &e) == 0);
	CHECK(store_box_end(store, "iaaaaaaaa", "lost", NULL, 101, &e) == 0); /* nothing to end any more */
	box_table_close(&u);
	CHECK(box_table_open(&u) == 0 && store_boxes(store, &u, &e) == 0 && u.n == 0);
	CHECK(store_log_lines(store, "iaaaaaaaa", 0, false, 9, line, got, &e) == 0 && strcmp(got, "ended: killed") == 0);
	box_table_close(&u);
	box_table_close(&t);
}

static void note_end(const struct store_end *x, void *arg)
{
	char *got = arg;
	size_t n = strlen(got);

	(void)snprintf(got + n, 256 - n, "%s %s %s %s %d %d;", x->id, x->template, x->how, x->result != NULL ? x->result : "-",
		       (int)x->started_ms, (int)x->ended_ms);
}

static void put_end(const char *id, const char *tenant, const char *template, int64_t ended_ms)
{
	struct box_table t;
	struct box *b;

	CHECK(box_table_open(&t) == 0);
	b = box_add(&t, id, BOX_RUNNING);
	(void)snprintf(b->tenant, sizeof(b->tenant), "%s", tenant);
	(void)snprintf(b->template, sizeof(b->template), "%s", template);
	b->started_ms = 1;
	CHECK(store_box_put(store, b, &e) == 0 && store_box_end(store, id, "exit", ended_ms == 8 ? "{}" : NULL, ended_ms, &e) == 0);
	box_table_close(&t);
}

TEST(ends_are_a_tenants_own_the_newest_first)
{
	char got[256] = "";

	put_end("iea", "ends", "base", 7);
	put_end("iec", "ends", "base", 8);
	put_end("ieb", "ends", "code", 8);
	put_end("ied", "others", "base", 9);
	CHECK(store_ends(store, "ends", INT64_MAX, "", 9, note_end, got, &e) == 0);
	CHECK(strcmp(got, "iec base exit {} 1 8;ieb code exit {} 1 8;iea base exit - 1 7;") == 0);
	got[0] = '\0';
	CHECK(store_ends(store, "ends", 8, "iec", 1, note_end, got, &e) == 0 && strcmp(got, "ieb code exit {} 1 8;") == 0);
	got[0] = '\0';
	CHECK(store_ends(store, "end", INT64_MAX, "", 9, note_end, got, &e) == 0 && got[0] == '\0');
	CHECK(store_purge(store, 9, &e) == 0 && store_ends(store, "ends", INT64_MAX, "", 9, note_end, got, &e) == 0 && got[0] == '\0');
}

TEST(what_is_written_together_is_taken_back_together)
{
	char got[64] = "";

	CHECK(store_begin(store, &e) == 0 && store_log(store, "icccccccc", 1, "info", "x", &e) == 0);
	CHECK(store_commit(store, -EIO, &e) == -EIO);
	CHECK(store_begin(store, &e) == 0 && store_log(store, "icccccccc", 1, "info", "y", &e) == 0);
	CHECK(store_commit(store, 0, &e) == 0);
	CHECK(store_log_lines(store, "icccccccc", 0, false, 9, line, got, &e) == 0 && strcmp(got, "y") == 0);
}

TEST(lines_come_in_order_and_go_with_their_sandbox)
{
	char got[16] = "";

	CHECK(store_log(store, "iaaaaaaaa", 10, "info", "a", &e) == 0);
	CHECK(store_log(store, "iaaaaaaaa", 10, "info", "b", &e) == 0);
	CHECK(store_log(store, "iaaaaaaaa", 30, "info", "c", &e) == 0);
	CHECK(store_log(store, "ibbbbbbbb", 20, "info", "x", &e) == 0);
	CHECK(store_log_lines(store, "iaaaaaaaa", 0, false, 2, line, got, &e) == 0 && strcmp(got, "ab") == 0);
	CHECK(store_log_lines(store, "iaaaaaaaa", 30, true, 9, line, got, &e) == 0 && strcmp(got, "abcba") == 0);
	CHECK(store_purge(store, 101, &e) == 0);
	got[0] = '\0';
	CHECK(store_log_lines(store, "iaaaaaaaa", 0, false, 9, line, got, &e) == 0 && got[0] == '\0');
	store_close(store);
	seal_close(&seal);
}

TEST(a_table_holds_thousands)
{
	struct box_table t;
	uint32_t n = 0;
	char id[BOX_ID_SIZE], first[BOX_ID_SIZE];

	CHECK(box_table_open(&t) == 0);
	for (int i = 0; i < 3000; i++) {
		box_new_id(id);
		CHECK(strlen(id) == 21 && id[0] == 'i' && box_add(&t, id, BOX_POOLED) != NULL);
		if (i == 0)
			memcpy(first, id, sizeof(id));
	}
	CHECK(t.n == 3000 && t.count[BOX_POOLED] == 3000 && box_find(&t, first) != NULL);
	box_state_set(&t, box_find(&t, first), BOX_RUNNING);
	CHECK(t.count[BOX_POOLED] == 2999 && t.count[BOX_RUNNING] == 1);
	box_drop(&t, box_find(&t, first));
	CHECK(t.n == 2999 && t.count[BOX_RUNNING] == 0 && box_find(&t, first) == NULL);
	for (struct box *b = box_next(&t, NULL); b != NULL; b = box_next(&t, b))
		n++;
	CHECK(n == 2999);
	box_table_close(&t);
}

TEST_MAIN()
