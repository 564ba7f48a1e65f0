#include "wire/sudo.h"

#include "base/num.h"
#include "harness/test.h"

#include <errno.h>
#include <string.h>

static struct msg_writer begin(struct buf *b)
{
	struct msg_writer w = {.b = b};

	buf_consume(b, b->len);
	msg_u64(&w, F_KIND, REQ_EXEC);
	msg_str(&w, F_USER, "root");
	return w;
}
static int check(const struct buf *b) { return sudo_request_check(buf_head(b), b->len); }
static int with_env(const char *kv)
{
	struct buf b = {.max = 4096};
	struct msg_writer w = begin(&b);
	int r;

	msg_str(&w, F_ENV, kv);
	r = check(&b);
	buf_done(&b);
	return r;
}

TEST(a_header_round_trips)
{
	uint8_t h[SUDO_HDR];

	sudo_header(h, 77);
	CHECK(sudo_header_decode(h) == 77);
	sudo_header(h, SUDO_REQUEST_MAX);
	CHECK(sudo_header_decode(h) == SUDO_REQUEST_MAX);
	sudo_header(h, SUDO_REQUEST_MAX + 1);
	CHECK(sudo_header_decode(h) == -EPROTO);
	sudo_header(h, UINT32_MAX);
	CHECK(sudo_header_decode(h) == -EPROTO);
	for (int i = 0; i < 8; i++) {
		sudo_header(h, 1);
		h[i] ^= 1;
		CHECK(sudo_header_decode(h) == -EPROTO);
	}
}

TEST(a_request_has_its_fields_and_no_others)
{
	static const enum msg_field others[] = {F_FLAGS, F_ROWS, F_COLS, F_MODE, F_PORT, F_HOW, F_LENGTH};
	struct buf b = {.max = 1u << 20};
	struct msg_writer w = begin(&b);

	CHECK(check(&b) == 0);
	msg_str(&w, F_ARG, "id");
	msg_str(&w, F_ARG, "");
	msg_str(&w, F_ENV, "A=");
	msg_u64(&w, F_UMASK, 022);
	CHECK(check(&b) == 0);
	for (size_t i = 0; i < ARRAY_LEN(others); i++) {
		w = begin(&b);
		msg_u64(&w, others[i], 0);
		CHECK(w.err == 0);
		CHECK(check(&b) == -EPROTO);
	}
	w = begin(&b);
	msg_str(&w, F_CWD, "/");
	CHECK(check(&b) == -EPROTO);
	w = begin(&b);
	msg_u64(&w, F_KIND, REQ_EXEC);
	CHECK(check(&b) == -EPROTO);
	CHECK(sudo_request_check(NULL, 0) == -EPROTO);
	buf_done(&b);
}

TEST(a_request_says_what_and_as_whom)
{
	struct buf b = {.max = 4096};
	struct msg_writer w = {.b = &b};

	msg_u64(&w, F_KIND, REQ_EXEC);
	CHECK(check(&b) == -EPROTO);
	msg_str(&w, F_USER, "");
	CHECK(check(&b) == -EPROTO);
	buf_consume(&b, b.len);
	msg_u64(&w, F_KIND, REQ_SHUTDOWN);
	msg_str(&w, F_USER, "root");
	CHECK(check(&b) == -EPROTO);
	buf_done(&b);
}

TEST(variables_are_pairs_and_not_who_called)
{
	CHECK(with_env("TERM=xterm") == 0);
	CHECK(with_env("SUDO_COMMAND=/bin/true") == 0);
	CHECK(with_env("SUDO_UIDX=1") == 0);
	CHECK(with_env("TERM") == -EPROTO);
	CHECK(with_env("=x") == -EPROTO);
	CHECK(with_env("") == -EPROTO);
	CHECK(with_env("SUDO_UID=0") == -EPROTO);
	CHECK(with_env("SUDO_GID=0") == -EPROTO);
	CHECK(with_env("SUDO_USER=root") == -EPROTO);
}

TEST(arguments_are_bounded)
{
	struct buf b = {.max = 4u << 20};
	struct msg_writer w = begin(&b);

	for (int i = 0; i < MSG_ARGS_MAX; i++)
		msg_str(&w, F_ARG, "");
	CHECK(w.err == 0);
	CHECK(check(&b) == 0);
	msg_str(&w, F_ARG, "");
	CHECK(check(&b) == -EPROTO);
	buf_done(&b);
}

static int reply(struct buf *b, uint64_t how, uint64_t code, struct sudo_reply *ret)
{
	struct msg_writer w = {.b = b};

	buf_consume(b, b->len);
	msg_u64(&w, F_HOW, how);
	msg_u64(&w, F_CODE, code);
	return sudo_reply_decode(buf_head(b), b->len, ret);
}

TEST(a_reply_is_an_end)
{
	struct buf b = {.max = 4096};
	struct msg_writer w = {.b = &b};
	struct sudo_reply got;

	CHECK(reply(&b, HOW_EXIT, 255, &got) == 0);
	CHECK(got.how == HOW_EXIT && got.code == 255);
	CHECK(reply(&b, HOW_SIGNAL, 15, &got) == 0);
	CHECK(got.how == HOW_SIGNAL && got.code == 15);
	CHECK(reply(&b, HOW_EXIT, 256, &got) == -EPROTO);
	CHECK(reply(&b, HOW_SIGNAL, 0, &got) == -EPROTO);
	CHECK(reply(&b, HOW_SIGNAL, 65, &got) == -EPROTO);
	CHECK(reply(&b, HOW_DONE, 0, &got) == -EPROTO);
	CHECK(reply(&b, 4, 0, &got) == -EPROTO);
	buf_consume(&b, b.len);
	msg_u64(&w, F_HOW, HOW_ERROR);
	msg_u64(&w, F_ERRNO, ENOENT);
	msg_str(&w, F_TEXT, "no such thing");
	CHECK(sudo_reply_decode(buf_head(&b), b.len, &got) == 0);
	CHECK(got.how == HOW_ERROR && got.err == ENOENT && strcmp(got.text, "no such thing") == 0);
	CHECK(sudo_reply_decode(buf_head(&b), b.len - 1, &got) == -EPROTO);
	CHECK(sudo_reply_decode(NULL, 0, &got) == -EPROTO);
	buf_done(&b);
}

TEST_MAIN()
