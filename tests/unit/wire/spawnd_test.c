#include "wire/spawnd.h"

#include "harness/test.h"

#include <errno.h>
#include <string.h>

static union {
	struct spawnd_ask ask;
	struct spawnd_tell tell;
	char raw[sizeof(struct spawnd_tell) + SPAWND_TEXT_MAX + 8];
} m;
static struct spawnd_ask ask;
static struct spawnd_tell tell;
static struct err err;

static int check(size_t more)
{
	const char *text = NULL;
	int r = spawnd_ask_check(&m, sizeof(m.ask) + more, &ask, &text, &err);

	return r == 0 && text != m.raw + sizeof(m.ask) ? 1 : r;
}

static int told(size_t more)
{
	const char *text = NULL;

	return spawnd_tell_check(&m, sizeof(m.tell) + more, &tell, &text, &err);
}

static void start(void)
{
	memset(&m, 0, sizeof(m));
	m.ask = (struct spawnd_ask){.op = SPAWND_START, .seq = 7, .timeout_ms = 5, .id = "iabcdefgh",
				    .template = "base", .tenant = "T-1"};
}

TEST(asks)
{
	start();
	CHECK(check(0) == 0 && ask.seq == 7 && strcmp(ask.template, "base") == 0);
	m.ask.egress = SPAWND_EGRESS_SET;
	m.ask.text_n = 3;
	CHECK(check(3) == 0);
	CHECK(check(2) == -EPROTO && check(4) == -EPROTO);
	memset(&m, 0, sizeof(m));
	m.ask.op = SPAWND_PING;
	CHECK(check(0) == 0);
	m.ask.op = SPAWND_KILL;
	CHECK(check(0) == -EPROTO);
	memcpy(m.ask.id, "iabcdefgh", 9);
	CHECK(check(0) == 0);
}

#define WRONG(change)                                                                              \
	do {                                                                                       \
		start();                                                                           \
		change;                                                                            \
		CHECK(check(m.ask.text_n) == -EPROTO);                                             \
	} while (0)

TEST(malformed_asks)
{
	WRONG(m.ask.op = 0);
	WRONG(m.ask.op = 99);
	WRONG(m.ask.id[0] = '\0');
	WRONG(m.ask.id[0] = 'A');
	WRONG(m.ask.id[2] = '/');
	WRONG(m.ask.id[4] = '\0');
	WRONG(memset(m.ask.id, 'a', sizeof(m.ask.id)));
	WRONG(m.ask.id[20] = 'x'); /* behind the end */
	WRONG(m.ask.template[0] = '\0');
	WRONG(m.ask.template[0] = ' ');
	WRONG(memset(m.ask.template, 'a', sizeof(m.ask.template)));
	WRONG(m.ask.tenant[0] = '\0');
	WRONG(m.ask.tenant[1] = '/');
	WRONG(m.ask.egress = 4);
	WRONG(m.ask.egress = SPAWND_EGRESS_SET); /* without text */
	WRONG(m.ask.text_n = 1);                 /* without a use */
	WRONG(m.ask.egress = SPAWND_EGRESS_SET; m.ask.text_n = SPAWND_TEXT_MAX + 1);
	WRONG(m.ask.op = SPAWND_KILL);
	WRONG(m.ask.op = SPAWND_LIST);
	start();
	CHECK(spawnd_ask_check(&m, sizeof(m.ask) - 1, &ask, &(const char *){NULL}, &err) == -EPROTO);
}

TEST(tells)
{
	memset(&m, 0, sizeof(m));
	m.tell = (struct spawnd_tell){.kind = SPAWND_REPLY, .seq = 1};
	CHECK(told(0) == 0);
	m.tell.kind = SPAWND_ENDED;
	CHECK(told(0) == -EPROTO); /* of whom? */
	memcpy(m.tell.id, "iabcdefgh", 9);
	m.tell.text_n = 2;
	CHECK(told(2) == 0 && told(1) == -EPROTO);
	m.tell.text_n = SPAWND_END_MAX + 1;
	CHECK(told(m.tell.text_n) == -EPROTO);
	m.tell.text_n = 0;
	m.tell.ret = -ENOENT;
	CHECK(told(0) == -EPROTO);
	m.tell.fault = ERR_NOT_FOUND;
	CHECK(told(0) == 0);
	memset(m.tell.why, 'x', sizeof(m.tell.why));
	CHECK(told(0) == -EPROTO);
}

TEST_MAIN()
