#include "gate/judge_priv.h"

#include "harness/test.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

/* Which refusals are written, what a record looks like, what is used up, paths, and rules that take over. */

static struct judge *rules(const char *text)
{
	struct judge *j = NULL;

	return judge_new(text, strlen(text), &j, NULL) == 0 ? j : NULL;
}

static bool note(struct judge *j, const char *name, uint64_t now_ms)
{
	struct judge_dest d = {.named = true, .port = 443};
	struct judge_record r = {.event = "connect", .reason = "no_rule", .transport = "tcp", .dest = &d};

	strcpy(d.name, name);
	return judge_note(j, &r, now_ms);
}

TEST(equal_refusals_are_one_record_and_a_count)
{
	struct judge *j = rules("on_deny dedupe_window_s 10\n");
	struct judge_record r;

	CHECK(note(j, "a.test", 1000) && !note(j, "a.test", 1001) && !note(j, "a.test", 10999) && note(j, "b.test", 1002));
	CHECK(!judge_repeats(j, 2000, false, &r));
	CHECK(judge_repeats(j, 11000, false, &r) && r.suppressed == 2 && strcmp(r.dest->name, "a.test") == 0);
	CHECK(!judge_repeats(j, 11000, true, &r) && note(j, "a.test", 11000) && judge_denied(j) == 5);
	judge_free(j);
}

TEST(what_found_no_room_is_told_when_there_is)
{
	struct judge *j = rules("on_deny dedupe_window_s 10\n"), *all = rules("on_deny dedupe_window_s 0\n");
	struct judge_dest d = {.named = true, .port = 443, .name = "a.test"};
	struct judge_record r = {.event = "connect", .reason = "no_rule", .transport = "tcp", .dest = &d}, told;

	CHECK(judge_note(j, &r, 1000) && judge_unwritten(j, &r) && !judge_note(j, &r, 1001));
	CHECK(judge_repeats(j, 1002, false, &told) && told.suppressed == 2); /* long before the window is over */
	CHECK(judge_unwritten(j, &told) && judge_repeats(j, 1003, false, &told) && told.suppressed == 2);
	CHECK(!judge_repeats(j, 1004, true, &told));
	CHECK(judge_note(all, &r, 1000) && !judge_unwritten(all, &r)); /* nothing is remembered: the caller counts */
	judge_free(j);
	judge_free(all);
}

TEST(many_different_ones_are_all_written)
{
	struct judge *j = rules("");
	char name[32];

	for (int i = 0; i < 5 * SEEN_MAX; i++) {
		(void)snprintf(name, sizeof(name), "n%d.test", i);
		CHECK(note(j, name, 1000));
	}
	judge_free(j);
}

TEST(refused_questions_have_a_rate)
{
	struct judge *j = rules("dns denied_qps 3\non_deny alert_after 2\n");
	char asked[16];
	int written = 0, alerts = 0;

	for (int i = 0; i < 20; i++) {
		struct judge_record r = {.event = "dns", .reason = "no_rule", .asked = asked};

		r.asked_n = (size_t)snprintf(asked, sizeof(asked), "n%d.test", i);
		written += judge_note(j, &r, 5000);
		alerts += r.alert;
		CHECK(i < 3 || strcmp(r.reason, "dns_rate") == 0);
	}
	CHECK(written == 4 && alerts == 1 && judge_denied(j) == 20);
	judge_free(j);
}

TEST(a_record_is_this_text)
{
	struct judge *j = rules("");
	struct judge_dest d = {.named = true, .port = 443, .name = "a.test", .orig = {.a = {198, 18, 1, 0}}};
	struct judge_peer src = {.addr = {.a = {10, 0, 255, 9}}, .port = 65535}, out6 = {.addr = {.v6 = true, .a = {[15] = 1}}, .port = 1};
	struct judge_hello h = {.sni = "q\"b\\\xff\n~"};
	struct resolve_result res = {.n = 2, .addr = {{.a = {93, 184, 216, 34}}, {.v6 = true, .a = {0x20, 1, [15] = 2}}}};
	const struct judge_who who = {.sandbox = "s", .tier = "container"};
	const struct judge_place at = {.seq = 1200, .prev_hash = ""};
	const struct judge_record r = {.event = "close", .allow = true, .reason = "closed", .rule = "r", .transport = "tcp", .dest = &d,
				       .src = &src, .local_out = &out6, .hello = &h, .resolved = &res, .dialed = &res.addr[0],
				       .close_reason = "ended", .bytes_down = UINT64_MAX};
	static const char want[] =
	    ",\"transport\":\"tcp\",\"src\":\"10.0.255.9:65535\",\"dst_kind\":\"name\",\"name\":\"a.test\","
	    "\"name_source\":\"synthetic\",\"orig_dst\":\"198.18.1.0\",\"dst_port\":443,\"sni\":\"q\\u0022b\\u005c\\u00ff\\u000a~\","
	    "\"resolved\":[\"93.184.216.34\",\"2001::2\"],\"dns_ms\":0,\"dialed\":\"93.184.216.34\",\"local_out\":\"[::1]:1\","
	    "\"close_reason\":\"ended\",\"bytes_up\":0,\"bytes_down\":18446744073709551615,\"dur_ms\":0,\"connect_ms\":0}\n";
	char text[PIPE_BUF + 1] = "", stamp[] = "{\"ts\":\"0000-00-00T00:00:00.000Z\",\"seq\":1200,";
	struct buf out;

	buf_init(&out, PIPE_BUF);
	CHECK(judge_line(j, &r, &who, &at, &out) == 0);
	memcpy(text, buf_head(&out), out.len);
	CHECK(out.len > sizeof(want) && strcmp(text + out.len - (sizeof(want) - 1), want) == 0);
	for (size_t i = 8; i < sizeof(stamp) - 1; i++)
		CHECK(stamp[i] == '0' && i < 32 ? text[i] >= '0' && text[i] <= '9' : text[i] == stamp[i]);
	buf_done(&out);
	judge_free(j);
}

TEST(a_text_is_cut_between_its_bytes)
{
	struct judge *j = rules("");
	char path[600];
	struct judge_req q = {.method = "GET", .host = "", .path = path};
	const struct judge_record r = {.event = "request", .reason = "no_rule", .req = &q};
	const struct judge_who who = {.sandbox = NULL};
	const struct judge_place at = {.prev_hash = ""};
	struct buf out;

	/* 460 bytes as written: none of an escape's six is lost */
	for (size_t plain = 450; plain < 470; plain++) {
		char want[600] = "";

		memset(path, 'a', sizeof(path) - 1);
		path[sizeof(path) - 1] = '\0';
		path[plain] = '"';
		buf_init(&out, PIPE_BUF);
		CHECK(judge_line(j, &r, &who, &at, &out) == 0);
		memset(want, 'a', plain < 460 ? plain : 460);
		if (plain + 6 <= 460) {
			strcpy(want + plain, "\\u0022");
			memset(want + plain + 6, 'a', 460 - plain - 6);
		}
		strcat(want, "\"}}\n");
		CHECK(out.len > strlen(want) + 1 && memcmp(buf_head(&out) + out.len - strlen(want), want, strlen(want)) == 0 &&
		      buf_head(&out)[out.len - strlen(want) - 1] == '"');
		buf_done(&out);
	}
	judge_free(j);
}

TEST(a_record_fits_whatever_it_holds)
{
	struct judge *j = rules("");
	struct judge_hello h = {.ech = true};
	struct judge_dest d = {.named = true, .port = 443};
	struct resolve_result res = {.n = RESOLVE_ADDRS_MAX, .cnames_n = RESOLVE_CNAMES_MAX};
	char long_text[300], hash[65] = "";
	struct judge_req q = {.method = "GET", .host = long_text, .path = long_text, .status = 200, .inject_header = "a", .secret_ref = long_text};
	struct judge_who who = {.task = hash, .sandbox = "12345678901234567890", .lifecycle = "12345678901234567890",
				.lineage = "12345678901234567890", .tier = "container"};
	struct judge_place at = {.seq = UINT64_MAX, .prev_hash = hash, .lost = UINT64_MAX};
	struct judge_record r = {.event = "request", .reason = "no_rule", .dest = &d, .hello = &h, .resolved = &res, .req = &q};
	struct buf out;

	memset(hash, 'a', 64);
	memset(long_text, '"', sizeof(long_text) - 1);
	long_text[sizeof(long_text) - 1] = '\0';
	memset(h.sni, 1, sizeof(h.sni) - 1);
	memset(d.name, 'a', JUDGE_NAME_MAX);
	for (int i = 0; i < RESOLVE_ADDRS_MAX; i++)
		res.addr[i] = (struct resolve_addr){.v6 = true, .a = {0x20, 1, 0xd, 0xb8, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, (uint8_t)i}};
	for (int i = 0; i < RESOLVE_CNAMES_MAX; i++)
		memset(res.cname[i], 2, 255);
	buf_init(&out, PIPE_BUF);
	CHECK(judge_line(j, &r, &who, &at, &out) == 0 && out.len <= PIPE_BUF);
	for (size_t i = 0; i < out.len; i++)
		CHECK((buf_head(&out)[i] >= 0x20 && buf_head(&out)[i] < 0x7f) || i == out.len - 1);
	buf_done(&out);
	judge_free(j);
}

TEST(limits_are_counted_by_rule_and_sandbox)
{
	struct judge *j = rules("limit max_conns 3\nallow a.test:443\n+limit max_conns 1\n+limit bytes_up 10\n+limit requests_per_min 2\n");
	struct judge_dest d = {.named = true, .port = 443, .name = "a.test"};
	struct judge_verdict v;
	const char *why = "";

	judge_decide(j, &d, &v);
	CHECK(v.allow && v.limits.bytes_up == 10 && v.limits.idle_s == 300);
	CHECK(judge_open(j, NULL, 1, &why) && judge_open(j, &v, 1, &why));
	CHECK(!judge_open(j, &v, 1, &why) && strcmp(why, "max_conns") == 0);
	judge_close(j, &v);
	CHECK(judge_open(j, &v, 1, &why));
	CHECK(judge_moved(j, &v, 9, 1000, &why) && !judge_moved(j, &v, 1, 0, &why) && strcmp(why, "bytes_up") == 0);
	CHECK(judge_request_rate(j, &v, 1, &why) && judge_request_rate(j, &v, 2, &why) && !judge_request_rate(j, &v, 3, &why));
	CHECK(judge_request_rate(j, &v, 30010, &why) && !judge_request_rate(j, &v, 30011, &why));
	judge_free(j);
}

static const char *request(const char *options, const char *method, const char *target)
{
	char text[512];
	struct judge *j;
	const char *why = "";

	(void)snprintf(text, sizeof(text), "allow a.test:80\n%s", options);
	j = rules(text);
	if (j == NULL)
		return "no rules";
	if (judge_request(judge_http(j, 0), method, strlen(method), target, strlen(target), &why))
		why = "ok";
	judge_free(j);
	return why;
}

TEST(paths_and_methods)
{
	static const char rule[] = "+method GET\n+path /repos/acme/**\n+path /a/*/c\n";
	static const char *const good[] = {"/repos/acme/x/y", "/repos/acme", "/repos/%61cme/x?q=/../", "/a/b/c"};
	static const char *const odd[] = {"/repos/acme/../x", "/repos/acme/%2e%2e/x", "/repos/acme//x", "/repos/acme/%2fx", "/repos/acme/%5cx",
					  "/repos/acme/%00", "/repos/acme/.", "/repos/acme/\\x", "/repos/acme/%zz", "*", "", "a.test/x"};
	static const char *const other[] = {"/repos/acmee/x", "/repos", "/a/b/d/c", "/A/b/c", "/"};

	for (size_t i = 0; i < ARRAY_LEN(good); i++)
		CHECK(strcmp(request(rule, "GET", good[i]), "ok") == 0);
	for (size_t i = 0; i < ARRAY_LEN(odd); i++)
		CHECK(strcmp(request(rule, "GET", odd[i]), "path_odd") == 0);
	for (size_t i = 0; i < ARRAY_LEN(other); i++)
		CHECK(strcmp(request(rule, "GET", other[i]), "path") == 0);
	CHECK(strcmp(request(rule, "POST", "/a/b/c"), "method") == 0 && strcmp(request(rule, "get", "/a/b/c"), "method") == 0);
	CHECK(strcmp(request("", "ANY", "/what/ever"), "ok") == 0);
	CHECK(strcmp(request("+raw_paths yes\n+path /x/**\n", "GET", "/x/..//%2f"), "ok") == 0);
}

TEST(new_rules_keep_names_and_counts)
{
	static const uint8_t q[] = {0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, 'a', 1, 'w', 4, 't', 'e', 's', 't', 0, 0, 1, 0, 1};
	struct judge *old = rules("allow *.w.test:1\n+id w\n"), *j = rules("allow *.w.test:2\n+id w\n+names 1\n"), *other = rules("dns pool4 100.64.0.0/16\n");
	struct resolve_addr at = {.a = {198, 18, 1, 0}};
	struct judge_verdict v;
	struct judge_dns d;
	struct judge_dest dest;
	uint8_t out[128];

	CHECK(judge_dns(old, q, sizeof(q), out, sizeof(out), &d) > 0 && !d.denied);
	CHECK(judge_adopt(other, old) < 0 && judge_dest(old, &at, 1, &dest));
	CHECK(judge_adopt(j, old) == 0 && judge_generation(j) == 2);
	judge_free(old);
	CHECK(judge_dest(j, &at, 2, &dest) && strcmp(dest.name, "a.w.test") == 0);
	judge_decide(j, &dest, &v);
	CHECK(v.allow && j->rules[0].names == 1);
	dest.port = 1;
	judge_decide(j, &dest, &v);
	CHECK(!v.allow && strcmp(v.reason, "port") == 0);
	judge_free(j);
	judge_free(other);
}

TEST(names_of_rules_are_resolved_first)
{
	static const uint8_t q[] = {0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, 'a', 4, 't', 'e', 's', 't', 0, 0, 1, 0, 1};
	struct judge *j = rules("allow a.test:1\n");
	struct resolve_result res = {.err = ENOENT};
	struct judge_dns d;
	uint8_t out[128];

	CHECK(judge_dns(j, q, sizeof(q), out, sizeof(out), &d) == 0 && d.wait && strcmp(d.name, "a.test") == 0);
	CHECK(judge_dns_resolved(j, q, sizeof(q), &res, out, sizeof(out), &d) > 0 && d.denied && (out[3] & 15) == 3);
	res.err = ETIMEDOUT;
	CHECK(judge_dns_resolved(j, q, sizeof(q), &res, out, sizeof(out), &d) > 0 && d.denied && (out[3] & 15) == 2);
	res.err = 0;
	CHECK(judge_dns_resolved(j, q, sizeof(q), &res, out, sizeof(out), &d) > 0 && !d.denied && out[7] == 1);
	CHECK(judge_dns(j, q, sizeof(q), out, sizeof(out), &d) > 0 && !d.wait); /* it has an address now */
	judge_free(j);
}

TEST(real_addresses_stand_for_the_names_they_were_given_for)
{
	static const uint8_t q[] = {0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, 'a', 4, 't', 'e', 's', 't', 0, 0, 1, 0, 1};
	static const char text[] = "dns pinned 1\nallow a.test:443/tls\nallow b.test:443/tls\nallow b.test:22/ssh\n";
	struct judge *j = rules(text), *next = rules(text), *other = rules("");
	struct resolve_result res = {.n = 3, .addr = {{.a = {93, 184, 216, 34}}, {.a = {127, 0, 0, 1}}, {.a = {93, 184, 216, 35}}}};
	struct judge_dest d;
	struct judge_dns dns;
	uint8_t out[512], b[sizeof(q)];
	const char *why = "";

	CHECK(judge_dest(j, &res.addr[0], 443, &d) && !d.named);
	CHECK(judge_dns(j, q, sizeof(q), out, sizeof(out), &dns) == 0 && dns.wait);
	CHECK(judge_dns_resolved(j, q, sizeof(q), &res, out, sizeof(out), &dns) > 0 && out[7] == 2 && !dns.denied);
	CHECK(judge_dest(j, &res.addr[2], 443, &d) && d.named && d.pinned && !d.choice && strcmp(d.name, "a.test") == 0);
	CHECK(judge_dest(j, &res.addr[1], 443, &d) && !d.named);
	memcpy(b, q, sizeof(q));
	b[13] = 'b';
	res.n = 1;
	CHECK(judge_dns_resolved(j, b, sizeof(b), &res, out, sizeof(out), &dns) > 0 && out[7] == 1);
	CHECK(judge_adopt(other, j) == -EINVAL && judge_adopt(next, j) == 0);
	CHECK(judge_dest(next, &res.addr[0], 22, &d) && !d.choice && strcmp(d.name, "b.test") == 0);
	CHECK(judge_dest(next, &res.addr[0], 443, &d) && d.choice && judge_pick(next, &d, (const uint8_t *)"\x16", 1, &why) == 0);
	CHECK(judge_pick(next, &d, (const uint8_t *)"GET", 3, &why) == -1 && strcmp(why, "pin_ambiguous") == 0);
	CHECK(judge_dest(next, &res.addr[0], 80, &d) && d.named && !d.choice);
	judge_free(j);
	judge_free(next);
	judge_free(other);
}

TEST(audit_permits_and_says_so)
{
	struct judge *j = rules("default audit\nallow a.test:443\ndeny bad.test:1-65535\n");
	struct judge_dest d = {.named = true, .port = 80, .name = "a.test"};
	struct resolve_addr lo = {.a = {127, 0, 0, 1}};
	struct judge_verdict v;
	const char *why;

	judge_decide(j, &d, &v);
	CHECK(v.allow && v.would_deny && strcmp(v.reason, "port") == 0 && !judge_addr(j, &d, &v, &lo, false, &why));
	d.port = 443;
	judge_decide(j, &d, &v);
	CHECK(v.allow && !v.would_deny);
	strcpy(d.name, "bad.test");
	judge_decide(j, &d, &v);
	CHECK(!v.allow);
	judge_free(j);
}

TEST(every_reason_has_a_row)
{
	CHECK(judge_reason("allowed") != NULL && judge_reason("sni_mismatch")->severity == SEVERITY_HIGH && judge_reason("nothing") == NULL);
}
TEST_MAIN()
