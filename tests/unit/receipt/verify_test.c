/* A receipt verifies as it was written and in no other way. */
#include "harness/test.h"
#include "unit/receipt/sample.h"

#include <sodium.h>

static const uint8_t seed[RECEIPT_SEED] = "0123456789abcdef0123456789abcde";
static struct receipt_key key;
static struct receipt_facts facts;

static char *payload(bool broken)
{
	static struct probe p;
	struct receipt_host h;
	struct probe_diffs d;

	sample_probe(&p);
	sample_host(&h);
	h.gap[h.gaps++] = (struct receipt_gap){"cpu limit", "nobody asked \xff"};
	if (broken)
		p.command.task.no_new_privs = 0;
	receipt_compare(&h, &p, &d);
	return sample_payload(&h, &p, &d, key.pub);
}

static struct buf sealed(const char *text)
{
	struct buf b = {.max = RECEIPT_MAX};

	if (receipt_key_from_seed(seed, &key) < 0 || sample_seal(text, strlen(text), &key, &b) < 0)
		abort();
	return b;
}

/* Verify text as if our own key had signed it. */
static int signed_text(const char *text)
{
	struct buf b = sealed(text);
	struct err e = ERR_INIT;
	int r = receipt_verify(buf_head(&b), b.len, key.pub, &facts, &e);

	buf_done(&b);
	return r;
}

/* The sample with its first `from` replaced. */
static int changed(bool broken, const char *from, const char *to)
{
	char *text = payload(broken), *at = strstr(text, from), *made = NULL;
	int r;

	if (at == NULL ||
	    asprintf(&made, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from)) < 0)
		abort();
	r = signed_text(made);
	free(made);
	free(text);
	return r;
}

TEST(what_was_written_verifies)
{
	CHECK(receipt_key_from_seed(seed, &key) == 0);
	char *text = payload(false);

	CHECK(text != NULL && signed_text(text) == 0);
	CHECK(facts.enforced && facts.differences == 0 && facts.gaps == 1 &&
	      facts.time == 1700000000);
	CHECK(strcmp(facts.id, "abcdefghij0123456789") == 0);
	free(text);
}

TEST(a_refused_start_is_genuine_and_not_enforced)
{
	char *text = payload(true);

	CHECK(signed_text(text) == 0 && !facts.enforced && facts.differences == 1);
	CHECK(strstr(facts.diff[0], "no_new_privs of the command") != NULL);
	free(text);
}

TEST(every_changed_byte_is_refused)
{
	char *text = payload(false);
	struct buf b = sealed(text);
	size_t line = strcspn((const char *)buf_head(&b), "\n") + 1;

	for (size_t i = 0; i < b.len; i++)
		for (unsigned bit = 0; bit < 8; bit++) {
			uint8_t *at = b.data + b.off + i;

			if (i >= line && bit != i % 8)
				continue;
			*at ^= (uint8_t)(1u << bit);
			CHECK(receipt_verify(buf_head(&b), b.len, key.pub, &facts, NULL) < 0);
			*at ^= (uint8_t)(1u << bit);
		}
	CHECK(receipt_verify(buf_head(&b), b.len, key.pub, &facts, NULL) == 0);
	buf_done(&b);
	free(text);
}

TEST(every_cut_and_every_addition_is_refused)
{
	char *text = payload(false);
	struct buf b = sealed(text);

	for (size_t n = 0; n < b.len; n++)
		CHECK(receipt_verify(buf_head(&b), n, key.pub, &facts, NULL) < 0);
	for (int c = 0; c < 256; c++) {
		uint8_t byte = (uint8_t)c;

		CHECK(buf_put(&b, &byte, 1) == 0);
		CHECK(receipt_verify(buf_head(&b), b.len, key.pub, &facts, NULL) == -EBADMSG);
		b.len--;
	}
	buf_done(&b);
	free(text);
}

TEST(another_key_is_refused)
{
	char *text = payload(false);
	struct buf b = sealed(text);
	struct receipt_key other;
	uint8_t s[RECEIPT_SEED] = "other";

	CHECK(receipt_key_from_seed(s, &other) == 0);
	CHECK(receipt_verify(buf_head(&b), b.len, other.pub, &facts, NULL) == -EKEYREJECTED);
	/* and with the other's name written over ours */
	CHECK(sodium_bin2hex((char *)b.data + b.off + 15, 65, other.pub, 32) != NULL);
	b.data[b.off + 15 + 64] = ' ';
	CHECK(receipt_verify(buf_head(&b), b.len, other.pub, &facts, NULL) == -EBADMSG);
	buf_done(&b);
	free(text);
}

TEST(newer_formats_are_refused_as_such)
{
	char *text = payload(false);
	struct buf b = sealed(text);

	b.data[b.off + 13] = '2';
	CHECK(receipt_verify(buf_head(&b), b.len, key.pub, &facts, NULL) == -EPROTONOSUPPORT);
	CHECK(changed(false, "\"schema\":1", "\"schema\":2") == -EPROTONOSUPPORT);
	buf_done(&b);
	free(text);
}

TEST(signed_nonsense_is_refused)
{
	CHECK(signed_text("") == -EBADMSG && signed_text("{}") == -EBADMSG &&
	      signed_text("[]") == -EBADMSG);
	CHECK(changed(false, "\"schema\":1", "\"schema\": 1") == -EBADMSG);
	CHECK(changed(false, "\"schema\":1", "\"schema\":1,\"schema\":1") == -EBADMSG);
	CHECK(changed(false, "\"schema\":1", "\"schema\":0") == -EBADMSG);
	CHECK(changed(false, "\"schema\":1", "\"schema\":1,\"seen\":1") == -EBADMSG);
	CHECK(changed(false, ",\"tier\":\"container\"", "") == -EBADMSG);
	CHECK(changed(false, "\"key\":\"", "\"key\":\"0") == -EBADMSG);
}

TEST(a_conclusion_at_odds_with_its_measurements_is_refused)
{
	CHECK(changed(true, "\"enforced\":false", "\"enforced\":true") == -EBADMSG);
	CHECK(changed(false, "\"enforced\":true", "\"enforced\":false") == -EBADMSG);
	CHECK(changed(false, "\"no_new_privs\":true", "\"no_new_privs\":false") == -EBADMSG);
	CHECK(changed(false, "\"seccomp_mode\":2", "\"seccomp_mode\":1") == -EBADMSG);
	CHECK(changed(false, "\"bpf\":1", "\"bpf\":0") == -EBADMSG);
	CHECK(changed(false, "\"bpf\":1", "\"bpf\":38") == -EBADMSG);
}

/* Calls are added to the table, and with them old receipts must not become wrong. */
TEST(calls_of_another_version_are_judged_by_being_refused)
{
	CHECK(changed(false, "\"bpf\":1,", "") == 0);
	CHECK(changed(false, "\"bpf\":1,", "\"bpf\":1,\"bpg\":38,") == 0);
	CHECK(changed(false, "\"bpf\":1,", "\"bpf\":1,\"bpg\":0,") == -EBADMSG);
	CHECK(changed(false, "\"bpf\":1,", "\"bpf\":1,\"bpg\":-1,") == -EBADMSG);
}

/* Each part has its shape, also those within others. */
TEST(a_part_of_another_shape_is_refused)
{
	static const char *const changes[][2] = {
	    {"\"env\":[", "\"env\":[1,"},
	    {"\"require\":[]", "\"require\":{}"},
	    {"\"memory\":1073741824", "\"memory\":1073741824.5"},
	    {"\"bytes\":536870912", "\"bytes\":\"all\""},
	    {"\"inodes\":200000},\"gid_map\"", "\"inodes\":200000,\"x\":1},\"gid_map\""},
	    {"\"gid_map\":[[0,", "\"gid_map\":[[0,1,"},
	    {"\"gid_map\":[[0,", "\"gid_map\":[0,[0,"},
	    {"\"landlock_abi\":0", "\"landlock_abi\":\"0\""},
	    {"\"mounts\":[", "\"mounts\":[null,"},
	    {"\"errno\":{", "\"errno\":{\"a\":\"b\","},
	    {"\"interfaces\":[\"lo\"]", "\"interfaces\":[[\"lo\"]]"},
	    {"\"gid\":[1000,", "\"gid\":["},
	    {"\"processes\":2", "\"processes\":true"},
	    {"\"kcore\":\"shut\"", "\"kcore\":1"},
	    {"\"core\":[1,1]", "\"core\":[1]"},
	    {"\"words\":1", "\"words\":null"},
	    {"\"cpu_milli\":null", "\"cpu_milli\":false"},
	    {"\"outside_file\":13", "\"outside_file\":null"},
	};

	for (size_t i = 0; i < ARRAY_LEN(changes); i++) {
		int r = changed(false, changes[i][0], changes[i][1]);

		if (r != -EBADMSG)
			printf("# %s: %d\n", changes[i][1], r);
		CHECK(r == -EBADMSG);
	}
}

TEST(settings_that_leave_no_room_are_refused_before_anything_starts)
{
	static char long_name[4096];
	struct receipt_host h;
	struct buf b = {.max = RECEIPT_MAX};
	struct spec s;

	sample_host(&h);
	spec_init(&s);
	s.image = h.spec->image;
	h.spec = &s;
	memset(long_name, 'x', sizeof(long_name) - 1);
	for (int i = 0; i < 36; i++)
		CHECK(strv_add(&s.env, long_name) == 0);
	CHECK(receipt_begin(&h, &b) == 0);
	buf_done(&b);
	for (int i = 0; i < 36; i++)
		CHECK(strv_add(&s.env, long_name) == 0);
	CHECK(receipt_begin(&h, &b) == -ENOBUFS);
	buf_done(&b);
	s.image = NULL;
	spec_done(&s);
}

TEST(a_huge_file_is_refused)
{
	uint8_t *p = calloc(1, RECEIPT_MAX + 1);

	CHECK(p != NULL);
	CHECK(receipt_verify(p, RECEIPT_MAX + 1, key.pub, &facts, NULL) == -EBADMSG);
	free(p);
}

TEST_MAIN()
