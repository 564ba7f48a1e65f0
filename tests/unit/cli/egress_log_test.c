#include "cli/egress_log.h"

#include "harness/test.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* A refusal with so many fields more. */
static size_t line(char *out, size_t size, const char *name, int more)
{
	size_t n = (size_t)snprintf(out, size, "{\"event\":\"connect\",\"verdict\":\"deny\",\"reason\":\"no_rule\",\"transport\":\"tcp\",\"name\":\"%s\",\"dst_port\":443",
				    name);

	for (int i = 0; i < more; i++)
		n += (size_t)snprintf(out + n, size - n, ",\"%x\":1", i);
	return n + (size_t)snprintf(out + n, size - n, "}\n");
}

/* The room that records are read into is theirs one after another; what does not fit there is read all the same. */
TEST(records_of_any_number_of_parts)
{
	static struct egress_log l;
	char text[EGRESS_LINE_MAX];
	int p[2];

	CHECK(pipe2(p, O_CLOEXEC | O_NONBLOCK) == 0);
	egress_log_init(&l, -1);
	for (int i = 0; i < 200; i++) {
		size_t n = line(text, sizeof(text), i % 2 == 0 ? "a.test" : "b.test", i % 10 == 0 ? 900 : 20);

		CHECK(write(p[1], text, n) == (ssize_t)n);
		CHECK(egress_log_read(&l, p[0]));
	}
	CHECK(close(p[1]) == 0);
	CHECK(!egress_log_read(&l, p[0]));
	CHECK(l.records == 200 && l.denied == 200 && l.n == 2);
	CHECK(strcmp(l.seen[0].where, "a.test:443") == 0 && l.seen[0].times == 100);
	CHECK(strcmp(l.seen[1].where, "b.test:443") == 0 && l.seen[1].times == 100);
	egress_log_done(&l);
	(void)close(p[0]);
}

TEST_MAIN()
