#include "relay/records.h"

#include "harness/test.h"

#include <limits.h>
#include <signal.h>
#include <sodium.h>
#include <string.h>
#include <unistd.h>

/* The chain of records, whenever the last line is hashed. */

static void nothing(struct source *s, uint32_t events)
{
	(void)s;
	(void)events;
}

TEST(each_line_names_the_one_before_settled_or_not)
{
	const struct judge_record r = {.event = "policy", .reason = "replaced", .allow = true};
	const struct judge_who who = {.sandbox = "s"};
	struct judge *j = NULL;
	struct records rec;
	char line[PIPE_BUF + 1], hex[65] = "", want[80];
	uint8_t sum[crypto_hash_sha256_BYTES];
	int p[2];

	(void)signal(SIGPIPE, SIG_IGN); /* as in the gate */
	CHECK(judge_new("", 0, &j, NULL) == 0 && pipe(p) == 0);
	records_init(&rec, nothing);
	CHECK(!records_unsettled(&rec));
	records_settle(&rec); /* there is none */
	rec.pipe.fd = p[1];
	for (int i = 0; i < 6; i++) {
		ssize_t n;

		CHECK(records_write(&rec, j, &r, &who) && records_unsettled(&rec));
		n = read(p[0], line, sizeof(line) - 1);
		CHECK(n > 0 && line[n - 1] == '\n');
		line[n] = '\0';
		(void)snprintf(want, sizeof(want), "\"prev_hash\":\"%s\"", hex);
		CHECK(i == 0 ? strstr(line, "prev_hash") == NULL : strstr(line, want) != NULL);
		(void)crypto_hash_sha256(sum, (const uint8_t *)line, (size_t)n - 1);
		(void)sodium_bin2hex(hex, sizeof(hex), sum, sizeof(sum));
		if (i % 2 == 0) {
			records_settle(&rec);
			CHECK(!records_unsettled(&rec) && strcmp(rec.prev_hash, hex) == 0);
		}
	}
	CHECK(rec.seq == 6);
	(void)close(p[0]);
	CHECK(!records_write(&rec, j, &r, &who) && rec.seq == 6 && strcmp(rec.prev_hash, hex) == 0);
	records_done(&rec);
	judge_free(j);
}

TEST_MAIN()
