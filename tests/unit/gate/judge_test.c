#include "gate/judge_priv.h"

#include "base/num.h"
#include "harness/test.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

/* The published ways round such gates, as far as one decision shows them. */

static const char policy[] = "allow api.allowed.test:443/tls\n"
			     "allow *.allowed.test:443/tls\n"
			     "allow **.deep.test:443/tls\n"
			     "allow git.allowed.test:22/ssh\n"
			     "allow db.allowed.test:5432/postgres@10.20.0.0/16\n"
			     "range 93.184.216.0/24:8000-8099\n"
			     "range 0.0.0.0/0:4443\n"
			     "deny bad.allowed.test:443\n"
			     "deny 93.184.216.7/32:1-65535\n";

static struct judge *rules(const char *text)
{
	struct judge *j = NULL;
	struct err e = {0};

	if (judge_new(text, strlen(text), &j, &e) < 0)
		abort();
	return j;
}

static struct resolve_addr addr(const char *text)
{
	struct resolve_addr a = {.v6 = strchr(text, ':') != NULL};

	if (inet_pton(a.v6 ? AF_INET6 : AF_INET, text, a.a) != 1)
		abort();
	return a;
}

static struct judge_verdict named(const struct judge *j, const char *name, uint16_t port)
{
	struct judge_dest d = {.named = true, .port = port};
	struct judge_verdict v;

	strcpy(d.name, name);
	judge_decide(j, &d, &v);
	return v;
}

static struct judge_verdict raw(const struct judge *j, const char *a, uint16_t port)
{
	struct judge_dest d = {.port = port, .orig = addr(a)};
	struct judge_verdict v;

	judge_decide(j, &d, &v);
	return v;
}

static bool canon_is(const char *s, size_t n, const char *want)
{
	char out[JUDGE_NAME_MAX + 1];
	int len = name_canon(s, n, 2, out);

	return want == NULL ? len < 0 : len == (int)strlen(want) && strcmp(out, want) == 0;
}

TEST(a_name_has_one_form_or_none)
{
	static const char *const bad[] = {"api.allowed.test..",
					  ".allowed.test",
					  "a..test",
					  "api.allowed.test:443",
					  "\xd0\xb0pi.allowed.test",
					  ("api\xe3\x80\x82"
					   "allowed.test"),
					  "localhost",
					  "1.2.3.4",
					  "0x7f.1",
					  "a.0x7f",
					  "a.1",
					  "2130706433",
					  "-a.test",
					  "a-.test",
					  "",
					  "."};

	CHECK(canon_is("API.Allowed.Test.", 17, "api.allowed.test"));
	CHECK(canon_is("_x.allowed.test", 15, "_x.allowed.test"));
	CHECK(canon_is("evil.test\0.allowed.test", 23, NULL));
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		CHECK(canon_is(bad[i], strlen(bad[i]), NULL));
	for (int c = 0; c < 256; c++) {
		char s[] = "ax.allowed.test";
		bool good = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
			    (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';

		s[1] = (char)c;
		if (c != '-' && c != '.')
			CHECK(canon_is(s, sizeof(s) - 1, NULL) == !good);
	}
}

TEST(names_match_by_labels)
{
	struct judge *j = rules(policy);

	CHECK(named(j, "api.allowed.test", 443).allow && named(j, "x.allowed.test", 443).allow);
	CHECK(!named(j, "notallowed.test", 443).allow &&
	      !named(j, "allowed.test.evil.test", 443).allow);
	CHECK(!named(j, "xallowed.test", 443).allow && !named(j, "allowed.test", 443).allow);
	CHECK(!named(j, "a.b.allowed.test", 443).allow);
	CHECK(named(j, "a.b.deep.test", 443).allow && !named(j, "deep.test", 443).allow);
	CHECK(strcmp(named(j, "bad.allowed.test", 443).reason, "deny_rule") == 0);
	judge_free(j);
}

TEST(a_port_is_permitted_or_not)
{
	static const uint16_t other[] = {80, 8080, 5432, 3000, 8443, 65535};
	struct judge *j = rules(policy);

	for (size_t i = 0; i < ARRAY_LEN(other); i++)
		CHECK(strcmp(named(j, "api.allowed.test", other[i]).reason, "port") == 0);
	CHECK(named(j, "git.allowed.test", 22).check == CHECK_SSH);
	judge_free(j);
}

TEST(nothing_given_is_nothing_permitted)
{
	struct judge *j = rules("");

	CHECK(!named(j, "api.allowed.test", 443).allow);
	CHECK(strcmp(raw(j, "8.8.8.8", 53).reason, "raw_ip") == 0);
	judge_free(j);
}

TEST(the_most_specific_rule_counts_alone)
{
	struct judge *j =
	    rules("allow **.a.test:443/tcp\nallow *.a.test:443/tls\nallow x.a.test:443/ssh\n");

	CHECK(named(j, "x.a.test", 443).check == CHECK_SSH &&
	      named(j, "y.a.test", 443).check == CHECK_TLS);
	CHECK(named(j, "z.y.a.test", 443).check == CHECK_NONE);
	judge_free(j);
}

TEST(a_raw_address_needs_a_range)
{
	struct judge *j = rules(policy);

	CHECK(raw(j, "93.184.216.1", 8000).allow && !raw(j, "93.184.216.1", 8100).allow);
	CHECK(strcmp(raw(j, "93.184.216.7", 8000).reason, "deny_rule") == 0);
	CHECK(strcmp(raw(j, "93.184.217.1", 8000).reason, "port") ==
	      0); /* 0.0.0.0/0 is for another */
	CHECK(strcmp(raw(j, "2606:4700::1111", 8000).reason, "raw_ip") == 0);
	judge_free(j);
}

TEST(the_floor)
{
	static const char *const never[] = {"127.0.0.1",
					    "0.0.0.0",
					    "169.254.169.254",
					    "198.18.0.1",
					    "224.0.0.1",
					    "255.255.255.255",
					    "::",
					    "::1",
					    "fe80::1",
					    "ff02::1",
					    "::ffff:169.254.169.254",
					    "::ffff:a9fe:a9fe",
					    "::ffff:0:a9fe:a9fe",
					    "64:ff9b::a9fe:a9fe",
					    "64:ff9b:1::a9fe:a9fe",
					    "2002:a9fe:a9fe::",
					    "::127.0.0.1",
					    "2001:db8::5efe:7f00:1",
					    "2001:0:a9fe:a9fe::1",
					    "2001::5601:5601"};
	static const char *const closed[] = {
	    "10.1.2.3",	      "172.31.0.1",  "192.168.1.1",   "100.64.0.1",
	    "192.0.0.1",      "240.0.0.1",   "fd00::1",	      "64:ff9b::808:808",
	    "2002:808:808::", "2001:db8::1", "::ffff:8.8.8.8"};
	static const char *const open[] = {"8.8.8.8", "172.32.0.1", "100.128.0.1",
					   "2606:4700::1111"};
	struct resolve_addr a;

	for (size_t i = 0; i < ARRAY_LEN(never); i++)
		CHECK((a = addr(never[i]), floor_of(&a)) == FLOOR_NEVER);
	for (size_t i = 0; i < ARRAY_LEN(closed); i++)
		CHECK((a = addr(closed[i]), floor_of(&a)) == FLOOR_NAMED);
	for (size_t i = 0; i < ARRAY_LEN(open); i++)
		CHECK((a = addr(open[i]), floor_of(&a)) == FLOOR_OPEN);
}

static bool may(const struct judge *j, struct judge_verdict v, uint16_t port, const char *text)
{
	struct resolve_addr a = addr(text);

	struct judge_dest d = {.port = port};
	const char *why;

	return v.allow && judge_addr(j, &d, &v, &a, false, &why);
}

TEST(a_local_rule_opens_one_address_at_one_port)
{
	struct judge *j = rules("local 192.0.2.1:5000@127.0.0.1\nlocal 10.0.0.7:443@10.0.0.7\n");
	struct judge_verdict v = raw(j, "192.0.2.1", 5000), other = raw(j, "10.0.0.7", 443);
	struct resolve_addr a = addr("192.0.2.1"), lo = addr("127.0.0.1");

	CHECK(judge_has_local(j));
	judge_local(j, &v, &a);
	CHECK(v.allow && a.v6 == lo.v6 && memcmp(a.a, lo.a, 4) == 0);
	CHECK(may(j, v, 5000, "127.0.0.1"));
	CHECK(!may(j, v, 5000, "127.0.0.2") && !may(j, v, 5000, "192.0.2.1"));
	CHECK(!raw(j, "192.0.2.1", 5001).allow && !raw(j, "192.0.2.2", 5000).allow && !raw(j, "127.0.0.1", 5000).allow);
	CHECK(may(j, other, 443, "10.0.0.7") && !may(j, other, 443, "127.0.0.1"));
	judge_free(j);
}

TEST(a_rule_opens_only_the_closed_ranges_it_names)
{
	struct judge *j = rules(policy);
	struct judge_verdict db = named(j, "db.allowed.test", 5432),
			     api = named(j, "api.allowed.test", 443);
	struct judge_verdict all = raw(j, "8.8.8.8", 4443);

	CHECK(may(j, db, 5432, "10.20.1.1") && !may(j, db, 5432, "10.21.1.1") && !may(j, db, 5432, "127.0.0.1"));
	CHECK(may(j, api, 443, "8.8.8.8") && !may(j, api, 443, "10.20.1.1") && !may(j, api, 443, "93.184.216.7"));
	CHECK(may(j, all, 4443, "8.8.8.8") && !may(j, all, 4443, "10.0.0.1") &&
	      !may(j, all, 4443, "169.254.169.254"));
	judge_free(j);
}

TEST(rules_that_are_not_meant_so_are_refused)
{
	static const char *const bad[] = {"allow *:443",
					  "allow *.com:443",
					  "allow a*.b.test:443",
					  "allow a.test",
					  "allow a.test:0",
					  "allow a.test:65536",
					  "allow a.test:9-8",
					  "allow a.test:443/quic",
					  "allow 10.0.0.1:443",
					  "range a.test:443",
					  "range 10.0.0.1/8:443",
					  "range 10.0.0.0/33:443",
					  "allow a.test:443@10.0.0.1/8",
					  "limit nothing 3",
					  "local 192.0.2.1:5000",
					  "local 192.0.2.0/24:5000@127.0.0.1",
					  "local 192.0.2.1:5000@127.0.0.0/8",
					  "local 192.0.2.1:5000-5001@127.0.0.1",
					  "local a.test:5000@127.0.0.1",
					  "x y"};

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct judge *j = NULL;
		struct err e = {0};

		CHECK(judge_new(bad[i], strlen(bad[i]), &j, &e) < 0 && j == NULL);
	}
}

/* Asks for the A record of a name: the address, or 0 and why not. */
static uint32_t ask(struct judge *j, const char *name, const char **why)
{
	uint8_t q[300] = {0, 1, 1, 0, 0, 1}, out[512];
	struct judge_dns d;
	size_t at = 12, n;

	for (const char *p = name; *p != '\0';) {
		size_t len = strcspn(p, ".");

		q[at++] = (uint8_t)len;
		memcpy(q + at, p, len);
		at += len;
		p += len + (p[len] == '.' ? 1 : 0);
	}
	at += 1;
	q[at + 1] = q[at + 3] = 1;
	n = judge_dns(j, q, at + 4, out, sizeof(out), &d);
	*why = d.reason;
	if (n < 16 || out[7] != 1)
		return 0;
	return (uint32_t)out[n - 4] << 24 | (uint32_t)out[n - 3] << 16 | (uint32_t)out[n - 2] << 8 | out[n - 1];
}

TEST(an_address_stands_for_one_name_for_good)
{
	struct judge *j = rules(policy);
	const char *why;
	uint32_t a = ask(j, "y.allowed.test", &why), b = ask(j, "x.allowed.test", &why);
	struct resolve_addr at = {.a = {198, 18, (uint8_t)(b >> 8), (uint8_t)b}};
	struct judge_dest d;

	CHECK(a == 0xc6120100 && b == 0xc6120101 && ask(j, "Y.allowed.test", &why) == a);
	CHECK(ask(j, "evil.test", &why) == 0 && strcmp(why, "no_rule") == 0);
	CHECK(judge_dest(j, &at, 443, &d) && d.named && strcmp(d.name, "x.allowed.test") == 0);
	at.a[3]++;
	CHECK(!judge_dest(j, &at, 443, &d)); /* stands for nothing */
	judge_free(j);
}

TEST(names_below_a_wildcard_are_counted)
{
	struct judge *j = rules(policy);
	const char *why = "";
	char name[64];

	for (int i = 0; i < WILD_NAMES_DEFAULT; i++) {
		(void)snprintf(name, sizeof(name), "n%d.allowed.test", i);
		CHECK(ask(j, name, &why) != 0);
	}
	CHECK(ask(j, "more.allowed.test", &why) == 0 && strcmp(why, "dns_budget") == 0);
	CHECK(ask(j, "abcdefghijklmnopqrstuvwxyz0123456.deep.test", &why) == 0 && strcmp(why, "dns_label") == 0);
	judge_free(j);
}

static int http(const char *text)
{
	struct judge_dest d = {.named = true, .port = 80, .name = "a.test"};
	struct judge_verdict v = {.check = CHECK_HTTP};
	struct judge_hello seen;
	const char *why;

	return judge_first(CHECK_HTTP, &v, &d, (const uint8_t *)text, strlen(text), &why, &seen);
}

TEST(heads_of_requests)
{
	CHECK(http("GET / HTTP/1.1\r\nHost: A.test.\r\n\r\n") == 1);
	CHECK(http("GET / HTTP/1.1\r\nHost: a.test:80\r\nX: y\r\n\r\n") == 1);
	CHECK(http("GET / HTTP/1.1\r\nHost: a.test\r\n") == 0);
	CHECK(http("GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n") == -1);
	CHECK(http("GET http://evil.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n") == -1);
	CHECK(http("CONNECT evil.test:443 HTTP/1.1\r\nHost: a.test\r\n\r\n") == -1);
	CHECK(http("GET / HTTP/1.1\r\nHost: a.test\r\nHost: evil.test\r\n\r\n") == -1);
	CHECK(http("GET / HTTP/1.1\r\nHost: a.test\r\nHost : evil.test\r\n\r\n") == -1);
	CHECK(http("GET / HTTP/1.1\r\nHost: a.test\r\n evil.test\r\n\r\n") == -1);
	CHECK(http("GET / HTTP/1.1\nHost: a.test\n\r\n\r\n") == -1);
	CHECK(http("GET / HTTP/1.1\r\nX: y\r\n\r\n") == -1);
}
/* ---- the proxy on the way out ---- */

TEST(proxy_lines)
{
	static const char good[] = "proxy address [2001:db8::1]:3128\nproxy names proxy\nproxy credentials file:/x\nallow a.test:443\n"
				   "+via direct\nallow b.test:443\n";
	static const char *const wrong[] = {
	    "proxy address 10.0.0.5\n", "proxy address 10.0.0.5:0\n", "proxy address 10.0.0.5:70000\n", "proxy address proxy.test:3128\n",
	    "proxy address 10.0.0.0/8:3128\n", "proxy address 0.0.0.0:3128\n", "proxy address 224.0.0.1:3128\n", "proxy address [::]:3128\n",
	    "proxy address 10.0.0.5:3128 x\n", "proxy names gate\n", "proxy credentials env:X\n", "proxy address\n", "proxy port 3128\n",
	    "proxy address 10.0.0.5:3128\nproxy names both\n", "proxy address 10.0.0.5:3128\nproxy credentials env:A\nproxy credentials env:B\n",
	    "proxy address 10.0.0.5:3128\nproxy names proxy\ndns pinned 1\n", "allow a.test:1\n+via other\n"};
	struct judge *j = rules(good);
	struct judge_verdict v = named(j, "a.test", 443);
	struct err e = {0};

	CHECK(judge_proxy(j) != NULL && judge_proxy(j)->at.port == 3128 && judge_proxy(j)->names);
	CHECK(strcmp(judge_proxy(j)->secret, "file:/x") == 0);
	CHECK(judge_via(j, &v) == NULL);
	v = named(j, "b.test", 443);
	CHECK(judge_via(j, &v) == judge_proxy(j));
	judge_free(j);
	/* another address: what was said of the one before is not said of it */
	j = rules("proxy address 10.0.0.5:3128\nproxy names proxy\nproxy credentials env:X\nproxy address 10.0.0.6:3128\n");
	CHECK(judge_proxy(j)->secret == NULL && !judge_proxy(j)->names && judge_proxy(j)->at.addr.a[3] == 6);
	judge_free(j);
	j = rules("allow a.test:443\n");
	CHECK(judge_proxy(j) == NULL);
	judge_free(j);
	for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
		j = NULL;
		CHECK(judge_new(wrong[i], strlen(wrong[i]), &j, &e) < 0);
		CHECK(j == NULL);
	}
}

static void asked(const struct judge_dest *d, const struct resolve_addr *to, const char *secret, const char *want)
{
	struct buf b;

	buf_init(&b, 4096);
	CHECK(judge_proxy_ask(d, to, secret, &b) == 0);
	CHECK(b.len == strlen(want) && memcmp(buf_head(&b), want, b.len) == 0);
	buf_done(&b);
}

TEST(proxy_asked)
{
	struct judge_dest d = {.named = true, .name = "api.allowed.test", .port = 443};
	struct resolve_addr v4 = addr("93.184.216.34"), v6 = addr("2001:db8::1");

	asked(&d, &v4, NULL, "CONNECT 93.184.216.34:443 HTTP/1.1\r\nHost: 93.184.216.34:443\r\n\r\n");
	asked(&d, &v6, NULL, "CONNECT [2001:db8::1]:443 HTTP/1.1\r\nHost: [2001:db8::1]:443\r\n\r\n");
	asked(&d, NULL, "me:it", "CONNECT api.allowed.test:443 HTTP/1.1\r\nHost: api.allowed.test:443\r\nProxy-Authorization: Basic bWU6aXQ=\r\n\r\n");
}

static ssize_t said(const char *text, uint32_t *status) { return judge_proxy_answer((const uint8_t *)text, strlen(text), status); }

TEST(proxy_answers)
{
	static const char ok[] = "HTTP/1.1 200 Connection established\r\nVia: x\r\n\r\n";
	static const char *const odd[] = {"HTTP/1.1 100 Continue\r\n\r\n", "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n",
					  "HTTP/2 200\r\n\r\n", "HTTP/1.1 200 OK\n\n", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n",
					  "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "HTTP/1.1 200 OK\r\nX : y\r\n\r\n", "SSH-2.0-x\r\n\r\n",
					  "HTTP/1.1 20 OK\r\n\r\n", "HTTP/1.1 600 OK\r\n\r\n", "HTTP/1.1 200 OK\r\n folded\r\n\r\n",
					  "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nContent-Length: 0\r\n\r\n"};
	char big[PROXY_ANSWER_MAX + 1];
	uint32_t status;

	CHECK(said(ok, &status) == (ssize_t)strlen(ok) && status == 200);
	CHECK(said("HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\nhello", &status) == 38);
	CHECK(said("HTTP/1.1 200 OK\r\n", &status) == 0);
	CHECK(said("", &status) == 0);
	CHECK(said("HTTP/1.1 407 No\r\n\r\n", &status) == -ECONNREFUSED && status == 407);
	CHECK(said("HTTP/1.1 302 Elsewhere\r\nLocation: x\r\n\r\n", &status) == -ECONNREFUSED && status == 302);
	for (size_t i = 0; i < ARRAY_LEN(odd); i++)
		CHECK(said(odd[i], &status) == -EBADMSG);
	memset(big, 'x', sizeof(big));
	memcpy(big, "HTTP/1.1 200 OK\r\nX: ", 20);
	CHECK(judge_proxy_answer((const uint8_t *)big, PROXY_ANSWER_MAX - 1, &status) == 0);
	CHECK(judge_proxy_answer((const uint8_t *)big, PROXY_ANSWER_MAX, &status) == -EBADMSG);
}

TEST_MAIN()
