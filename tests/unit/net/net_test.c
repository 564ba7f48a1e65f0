#include "net/net.h"

#include "harness/test.h"
#include "net/ranges_priv.h"
#include "sys/file.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/*
 * The network of a gate, made in namespaces of the test's own. What the kernel took is read back by nft(8), so that the
 * bytes of the batches are compared with what they were meant to say, by somebody else's reading.
 */

static struct net_plan plan;

static struct net_range range(const char *first, const char *last)
{
	struct net_range r = {.v6 = strchr(first, ':') != NULL};

	if (inet_pton(r.v6 ? AF_INET6 : AF_INET, first, r.first) != 1 ||
	    inet_pton(r.v6 ? AF_INET6 : AF_INET, last, r.last) != 1)
		abort();
	return r;
}

static int make_plan(bool guest)
{
	struct net_range r[] = {range("198.18.0.0", "198.19.255.255"), range("203.0.113.0", "203.0.113.255"),
				range("2001:db8::", "2001:db8::ffff")};
	uint8_t addr[4];

	(void)inet_pton(AF_INET, NET_GUEST_TEXT, addr);
	return net_plan_gate(&plan, r, 3, guest ? addr : NULL);
}

/* Runs fn as root of a user and a network namespace of a child's own. What it returns, or 99. */
static int inside(int (*fn)(void))
{
	char map[32];
	int status = 0;
	uid_t uid = geteuid();
	gid_t gid = getegid();
	pid_t pid;

	(void)fflush(stdout);
	pid = fork();
	if (pid == 0) {
		struct ifreq ifr = {.ifr_name = "lo", .ifr_flags = IFF_UP};

		if (unshare(CLONE_NEWUSER | CLONE_NEWNET) < 0)
			_exit(98);
		(void)file_put(AT_FDCWD, "/proc/self/setgroups", "deny");
		(void)snprintf(map, sizeof(map), "0 %u 1", uid);
		(void)file_put(AT_FDCWD, "/proc/self/uid_map", map);
		(void)snprintf(map, sizeof(map), "0 %u 1", gid);
		(void)file_put(AT_FDCWD, "/proc/self/gid_map", map);
		if (ioctl(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), SIOCSIFFLAGS, &ifr) < 0)
			_exit(97);
		_exit(fn());
	}
	return pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : 99;
}

static int said(const char *cmd, const char *want)
{
	static char text[8192];
	FILE *f = popen(cmd, "re"); /* NOLINT(cert-env33-c) */
	size_t n = f != NULL ? fread(text, 1, sizeof(text) - 1, f) : 0;

	text[n] = '\0';
	if (f != NULL)
		(void)pclose(f);
	if (strcmp(text, want) == 0)
		return 0;
	printf("# %s says:\n", cmd);
	for (char *p = text; *p != '\0'; p += strcspn(p, "\n"), p += *p == '\n')
		printf("# %.*s\n", (int)strcspn(p, "\n"), p);
	(void)fflush(stdout);
	return 1;
}

static int setup(struct net_socks *s)
{
	char why[200] = "";
	const char *lacks = why;
	int r = net_setup(&plan, s, why, sizeof(why));

	if (r == 0)
		r = net_load(&plan, s, &lacks);
	if (r < 0)
		printf("# %s: %s\n", lacks, strerror(-r));
	(void)fflush(stdout);
	return r;
}

#define SETS                                                                                       \
	"\tset to4 {\n\t\ttype ipv4_addr\n\t\tflags interval\n"                                         \
	"\t\telements = { 198.18.0.0/15, 203.0.113.0/24 }\n\t}\n\n"                                      \
	"\tset to6 {\n\t\ttype ipv6_addr\n\t\tflags interval\n"                                         \
	"\t\telements = { 2001:db8::/112 }\n\t}\n\n"
#define PRE   "\tchain pre {\n\t\ttype filter hook prerouting priority mangle; policy accept;\n"
#define OWN                                                                                        \
	"\t\tip daddr 127.0.0.0/8 accept\n\t\tip daddr 198.18.0.2 accept\n"                              \
	"\t\tip6 daddr ::1 accept\n\t\tip6 daddr fd00:5b:ffff::2 accept\n"
#define GUEST                                                                                      \
	"\t\tiifname \"tap0\" meta nfproto != ipv4 drop\n"                                               \
	"\t\tiifname \"tap0\" ip saddr != 172.31.255.2 limit rate 200/second burst 200 packets log group 5 snaplen 96\n" \
	"\t\tiifname \"tap0\" ip saddr != 172.31.255.2 drop\n"
#define LEAD(udp53, tcp53, to4, to6)                                                               \
	"\t\tmeta nfproto ipv4 udp dport 53 " udp53 "\n\t\tmeta nfproto ipv4 tcp dport 53 " tcp53 "\n" \
	"\t\tip daddr @to4 meta l4proto tcp " to4 "\n\t\tip6 daddr @to6 meta l4proto tcp " to6 "\n"
#define BY_TPROXY                                                                                  \
	"\t\tsocket transparent 1 accept\n"                                                              \
	LEAD("tproxy ip to :53 accept", "tproxy ip to :99 accept", "tproxy ip to :99 accept",          \
	     "tproxy ip6 to :99 accept")
#define BY_REDIRECT LEAD("redirect to :53", "redirect to :99", "redirect to :99", "redirect to :99")
#define REFUSE                                                                                     \
	"\t\tlimit rate 200/second burst 200 packets log group 5 snaplen 96\n"                           \
	"\t\tmeta l4proto tcp reject with tcp reset\n\t\treject with icmpx admin-prohibited\n\t}\n"
#define WAY(hook) "\n\tchain way {\n\t\ttype nat hook " hook "; policy accept;\n"

static int container_tproxy(void)
{
	struct net_socks s;

	return setup(&s) < 0 || said("nft -s list ruleset", "table inet gate {\n" SETS PRE OWN BY_TPROXY REFUSE "}\n");
}

static int container_redirect(void)
{
	struct net_socks s;

	plan.first = NET_REDIRECT;
	return setup(&s) < 0 || said("nft -s list ruleset", "table inet gate {\n" SETS PRE OWN REFUSE
				     WAY("output priority -100") OWN BY_REDIRECT "\t}\n}\n");
}

static int guest_tproxy(void)
{
	struct net_socks s;

	return system("ip link add tap0 type veth peer name x0") != 0 || setup(&s) < 0 || /* NOLINT(cert-env33-c) */
	       said("nft -s list ruleset", "table inet gate {\n" SETS PRE GUEST BY_TPROXY REFUSE "}\n") ||
	       said("ip -br addr show tap0 | tr -s ' ' | cut -d' ' -f1,3", "tap0@x0 172.31.255.1/30\n") ||
	       said("ip -br link show tap0 | tr -s ' ' | cut -d' ' -f3", "02:62:72:69:67:01\n");
}

static int guest_redirect(void)
{
	struct net_socks s;

	plan.first = NET_REDIRECT;
	return system("ip link add tap0 type veth peer name x0") != 0 || setup(&s) < 0 || /* NOLINT(cert-env33-c) */
	       said("nft -s list ruleset",
		    "table inet gate {\n" SETS PRE GUEST LEAD("accept", "accept", "accept", "accept") REFUSE
		    WAY("prerouting priority dstnat") BY_REDIRECT "\t}\n}\n");
}

static int guest_without_interface(void)
{
	struct net_socks s;
	char why[200];

	return net_setup(&plan, &s, why, sizeof(why)) != -ENODEV || strstr(why, "tap0") == NULL;
}

static int went(int listener, int family, const char *to, uint16_t port, const char *want, uint16_t want_port);

static bool reported(int drops_fd)
{
	uint8_t copy[1024];

	return recv(drops_fd, copy, sizeof(copy), MSG_DONTWAIT) > 0;
}

/* As a kernel without that module sees it. */
static void spoil(enum net_way w, const char *word)
{
	for (size_t i = 0; i + strlen(word) < plan.batch_n[w]; i++)
		if (memcmp(plan.batch[w] + i, word, strlen(word) + 1) == 0)
			plan.batch[w][i] = '?';
}

static int without_tproxy(void)
{
	struct net_socks s;

	spoil(NET_TPROXY, "tproxy");
	return setup(&s) < 0 ||
	       said("nft -s list ruleset", "table inet gate {\n" SETS PRE OWN REFUSE
		    WAY("output priority -100") OWN BY_REDIRECT "\t}\n}\n");
}

/* No rule of it holds then, and nothing listens where the sandbox wants to go. */
static int refused(void)
{
	struct net_socks s;
	char text[200] = "";
	const char *why = text;

	return net_setup(&plan, &s, text, sizeof(text)) < 0 || net_load(&plan, &s, &why) != -ENOENT ||
	       strstr(why, "lacks") == NULL || said("nft -s list ruleset", "") ||
	       went(s.fd[NET_TCP4], AF_INET, "198.18.7.7", 443, "198.18.7.7", 443) == 0;
}

static int without_any(void)
{
	spoil(NET_TPROXY, "tproxy");
	spoil(NET_REDIRECT, "redir");
	return refused();
}

static int without_reject(void)
{
	spoil(NET_TPROXY, "reject");
	spoil(NET_REDIRECT, "reject");
	return refused();
}

/* Where no IPv6 address may be asked for, no rule leads there: it is refused and reported like any other. */
static int ipv4_only(void)
{
	struct net_range r[] = {range("198.18.0.0", "198.19.255.255")};
	struct net_socks s;

	return net_plan_gate(&plan, r, 1, NULL) < 0 || setup(&s) < 0 || said("nft -s list ruleset | grep -c tproxy", "3\n") ||
	       said("nft -s list ruleset | grep -c 'tproxy ip6'", "0\n") ||
	       went(s.fd[NET_TCP4], AF_INET, "198.18.7.7", 443, "198.18.7.7", 443) ||
	       went(s.fd[NET_TCP6], AF_INET6, "2001:db8::7", 443, "2001:db8::7", 443) == 0 ||
	       !reported(s.fd[NET_DROPS]);
}

#define INSIDE(name, guest)                                                                        \
	TEST(name##_is_what_the_kernel_lists)                                                      \
	{                                                                                          \
		CHECK(make_plan(guest) == 0);                                                      \
		CHECK(inside(name) == 0);                                                          \
	}
INSIDE(container_tproxy, false)
INSIDE(container_redirect, false)
INSIDE(guest_tproxy, true)
INSIDE(guest_redirect, true)
INSIDE(without_tproxy, false)
INSIDE(ipv4_only, false)

TEST(what_is_missing_fails_whole)
{
	CHECK(make_plan(false) == 0);
	CHECK(inside(without_any) == 0);
	CHECK(inside(without_reject) == 0);
	CHECK(make_plan(true) == 0);
	CHECK(inside(guest_without_interface) == 0);
}

/* ---- where a connection wanted to go ---- */

static int went(int listener, int family, const char *to, uint16_t port, const char *want, uint16_t want_port)
{
	struct sockaddr_in s4 = {.sin_family = AF_INET, .sin_port = htons(port)};
	struct sockaddr_in6 s6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
	int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0), got = -1, r;
	uint8_t addr[16], expect[16] = {0};
	bool v6 = false;
	uint16_t at = 0;

	if (inet_pton(family, to, family == AF_INET ? (void *)&s4.sin_addr : (void *)&s6.sin6_addr) != 1 ||
	    inet_pton(family, want, expect) != 1)
		abort();
	r = family == AF_INET ? connect(fd, (const struct sockaddr *)&s4, sizeof(s4))
			      : connect(fd, (const struct sockaddr *)&s6, sizeof(s6));
	if (r == 0)
		got = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	if (got < 0 || net_origin(got, &v6, addr, &at) < 0)
		return 1;
	(void)close(fd);
	(void)close(got);
	return v6 != (family == AF_INET6) || memcmp(addr, expect, sizeof(addr)) != 0 || at != want_port;
}

static int origins(void)
{
	struct net_socks s;

	return setup(&s) < 0 || went(s.fd[NET_TCP4], AF_INET, "198.18.7.7", 443, "198.18.7.7", 443) ||
	       went(s.fd[NET_TCP4], AF_INET, "203.0.113.9", 99, "203.0.113.9", 99) ||
	       went(s.fd[NET_TCP4], AF_INET, "8.8.8.8", 53, "8.8.8.8", 53) ||
	       went(s.fd[NET_TCP4], AF_INET, "127.0.0.1", 99, "127.0.0.1", 99) ||
	       went(s.fd[NET_TCP4], AF_INET, "198.18.0.2", 99, "198.18.0.2", 99) ||
	       went(s.fd[NET_TCP6], AF_INET6, "2001:db8::7", 443, "2001:db8::7", 443) ||
	       went(s.fd[NET_TCP6], AF_INET6, "::1", 99, "::1", 99);
}

static int origins_redirected(void)
{
	plan.first = NET_REDIRECT;
	return origins();
}

TEST(origins_by_both_ways)
{
	CHECK(make_plan(false) == 0);
	CHECK(inside(origins) == 0);
	CHECK(inside(origins_redirected) == 0);
}

/* ---- who loads the rules ---- */

/* The namespace's sockets go out; whoever made the namespace, and has no right inside, gives it its rules. */
static int from_outside(void)
{
	struct net_socks s;
	const char *why = "";
	char text[200] = "", byte;
	int pair[2], status = 0, r;
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return 1;
	pid = fork();
	if (pid == 0) {
		struct ifreq ifr = {.ifr_name = "lo", .ifr_flags = IFF_UP};

		(void)close(pair[0]);
		if (unshare(CLONE_NEWUSER | CLONE_NEWNET) < 0 ||
		    ioctl(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), SIOCSIFFLAGS, &ifr) < 0 ||
		    net_setup(&plan, &s, text, sizeof(text)) < 0 || net_send(pair[1], &s) < 0 || read(pair[1], &byte, 1) != 1)
			_exit(1);
		_exit(went(s.fd[NET_TCP4], AF_INET, "198.18.7.7", 443, "198.18.7.7", 443));
	}
	(void)close(pair[1]);
	r = pid < 0 ? -errno : net_take(pair[0], &s);
	if (r == 0)
		r = net_load(&plan, &s, &why);
	if (r < 0)
		printf("# %s: %s\n", why, strerror(-r));
	(void)fflush(stdout);
	(void)!write(pair[0], "g", 1);
	return r < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status) || WEXITSTATUS(status) != 0;
}

TEST(rules_are_loaded_from_outside)
{
	CHECK(make_plan(false) == 0);
	CHECK(from_outside() == 0);
}

/* ---- ranges ---- */

static bool is_range(const struct net_range *r, const char *first, const char *last)
{
	struct net_range want = range(first, last);

	return r->v6 == want.v6 && memcmp(r->first, want.first, range_size(r)) == 0 &&
	       memcmp(r->last, want.last, range_size(r)) == 0;
}

TEST(ranges_are_joined)
{
	struct net_range r[] = {range("10.0.0.5", "10.0.0.9"),   range("2001:db8::5", "2001:db8::9"),
				range("10.0.0.0", "10.0.0.4"),   range("10.0.0.2", "10.0.0.3"),
				range("10.0.0.11", "10.0.0.11"), range("255.255.255.255", "255.255.255.255"),
				range("255.0.0.0", "255.255.255.255")};

	CHECK(ranges_join(r, 7) == 4);
	CHECK(is_range(&r[0], "10.0.0.0", "10.0.0.9"));
	CHECK(is_range(&r[1], "10.0.0.11", "10.0.0.11"));
	CHECK(is_range(&r[2], "255.0.0.0", "255.255.255.255"));
	CHECK(is_range(&r[3], "2001:db8::5", "2001:db8::9"));
	CHECK(ranges_join(r, 0) == 0);
}

static int whole_space(void)
{
	struct net_socks s;

	return setup(&s) < 0 || said("nft -s list set inet gate to4 | grep elements", "\t\telements = { 0.0.0.0/0 }\n") ||
	       went(s.fd[NET_TCP4], AF_INET, "8.8.8.8", 443, "8.8.8.8", 443);
}

static int full(void)
{
	struct net_socks s;

	return setup(&s) < 0 || said("nft -s list set inet gate to4 | grep -o / | wc -l", "0\n") ||
	       went(s.fd[NET_TCP4], AF_INET, "11.0.255.0", 443, "11.0.255.0", 443);
}

TEST(many_ranges_and_all_addresses)
{
	static struct net_range r[NET_RANGES_MAX];

	r[0] = range("0.0.0.0", "127.255.255.255");
	r[1] = range("128.0.0.0", "255.255.255.255");
	CHECK(net_plan_gate(&plan, r, 2, NULL) == 0);
	CHECK(inside(whole_space) == 0);
	for (int i = 0; i < NET_RANGES_MAX; i++) {
		r[i] = range("11.0.0.0", "11.0.0.0");
		r[i].first[2] = r[i].last[2] = (uint8_t)i;
	}
	CHECK(net_plan_gate(&plan, r, NET_RANGES_MAX, NULL) == 0);
	CHECK(inside(full) == 0);
	CHECK(net_plan_gate(&plan, r, NET_RANGES_MAX + 1, NULL) == -E2BIG);
}

/* ---- the sockets' way out ---- */

TEST(sockets_are_handed_out)
{
	struct net_socks s = NET_SOCKS_NONE, got;
	int pair[2], p[2];

	CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
	CHECK(pipe2(p, O_CLOEXEC) == 0);
	s.fd[NET_TCP4] = p[0];
	s.fd[NET_DROPS] = p[1];
	CHECK(net_send(pair[0], &s) == 0);
	CHECK(net_take(pair[1], &got) == 0);
	CHECK(got.fd[NET_TCP4] >= 0 && got.fd[NET_TCP6] == -1 && got.fd[NET_DNS4] == -1 && got.fd[NET_DROPS] >= 0);
	CHECK((fcntl(got.fd[NET_TCP4], F_GETFD) & FD_CLOEXEC) != 0);
	CHECK(write(got.fd[NET_DROPS], "x", 1) == 1 && read(p[0], pair, 1) == 1);
	net_socks_close(&got);
	CHECK(got.fd[NET_TCP4] == -1 && got.fd[NET_DROPS] == -1);
	net_socks_close(&s);
}

TEST(what_is_no_such_message_is_refused)
{
	struct net_socks got;
	int pair[2];

	CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
	CHECK(write(pair[0], "\1\1\1\1", 4) == 4); /* promises four, brings none */
	CHECK(net_take(pair[1], &got) == -EPROTO && got.fd[NET_TCP4] == -1);
	CHECK(write(pair[0], "\0", 1) == 1);
	CHECK(net_take(pair[1], &got) == -EPROTO);
	(void)close(pair[0]);
	CHECK(net_take(pair[1], &got) == -EPIPE);
	(void)close(pair[1]);
}

TEST(a_host_is_probed)
{
	static struct net_offer o;

	CHECK(net_probe(&o) == 0);
	for (int i = 0; i < NET_PARTS; i++)
		CHECK(i == NET_PART_tun || o.err[i] == 0); /* not everybody may open /dev/net/tun */
	CHECK(o.setup_err[NET_TPROXY] == 0 && o.setup_err[NET_REDIRECT] == 0);
}

TEST_MAIN()
