/*
 * Makes the seccomp programs of the container tier at build time, so that no start pays for building
 * them: reads the table src/tier/container/seccomp.def and prints C arrays for
 * build/gen/seccomp_filters.h. With --doc prints the table as Markdown.
 *
 * One program: a second one on top would cost every start about 0.25 ms, most of it for making
 * machine code of it. It is an allow list, everything else ENOSYS (seccomp(2)); a binary tree, so
 * that the kernel's own walk over it at load time is short.
 * i386 and x32 callers get ENOSYS for everything.
 */
#include "wire/agent_abi.h"

#include <errno.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <seccomp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

enum row_kind { ROW_ALLOW, ROW_NR, ROW_DENY, ROW_ARGS };
struct row {
	enum row_kind kind;
	int nr;
	const char *name;
	const char *why;
};

#define ALLOW(call)        {ROW_ALLOW, SCMP_SYS(call), #call, NULL},
#define ALLOW_NR(num, call) {ROW_NR, num, #call, NULL},
#define DENY(call, reason) {ROW_DENY, SCMP_SYS(call), #call, reason},
#define ARGS(call, text)   {ROW_ARGS, SCMP_SYS(call), #call, text},
static const struct row rows[] = {
#include "tier/container/seccomp.def"
};
enum { NROWS = sizeof(rows) / sizeof(rows[0]) };

static void must(int r, const char *what)
{
	if (r != 0) {
		fprintf(stderr, "gen_seccomp: %s: %s\n", what, strerror(-r));
		exit(1);
	}
}

/* Namespace flags of clone(2) and unshare(2). CLONE_NEWTIME shares its bit with the exit signal of
 * clone and cannot be given there; unshare takes it. */
static const uint64_t ns_flags[] = {0x00020000, 0x02000000, 0x04000000, 0x08000000,
				    0x10000000, 0x20000000, 0x40000000};
enum { NS_TIME = 0x80 };

/* Protocols up to UDP; a higher one would have the kernel load its module, where the host has one
 * (SCTP, DCCP, UDP-Lite, MPTCP, L2TP). */
static void add_inet(scmp_filter_ctx c, uint64_t family)
{
	must(seccomp_rule_add(c, SCMP_ACT_ALLOW, SCMP_SYS(socket), 2, SCMP_A0(SCMP_CMP_EQ, family),
			      SCMP_A2(SCMP_CMP_LE, IPPROTO_UDP)), "socket");
	must(seccomp_rule_add(c, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(socket), 2, SCMP_A0(SCMP_CMP_EQ, family),
			      SCMP_A2(SCMP_CMP_GT, IPPROTO_UDP)), "socket");
}

static void add_socket(scmp_filter_ctx c)
{
	for (uint64_t family = 0; family <= AF_NETLINK; family++) {
		if (family == AF_UNIX)
			must(seccomp_rule_add(c, SCMP_ACT_ALLOW, SCMP_SYS(socket), 1,
					      SCMP_A0(SCMP_CMP_EQ, family)), "socket");
		else if (family == AF_INET || family == AF_INET6)
			add_inet(c, family);
		else if (family != AF_NETLINK)
			must(seccomp_rule_add(c, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(socket), 1,
					      SCMP_A0(SCMP_CMP_EQ, family)), "socket");
	}
	must(seccomp_rule_add(c, SCMP_ACT_ALLOW, SCMP_SYS(socket), 2, SCMP_A0(SCMP_CMP_EQ, AF_NETLINK),
			      SCMP_A2(SCMP_CMP_EQ, 0)), "socket");
	must(seccomp_rule_add(c, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(socket), 2,
			      SCMP_A0(SCMP_CMP_EQ, AF_NETLINK), SCMP_A2(SCMP_CMP_NE, 0)), "socket");
	/* Also every number with a high half: the kernel would cut it off. */
	must(seccomp_rule_add(c, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(socket), 1,
			      SCMP_A0(SCMP_CMP_GT, AF_NETLINK)), "socket");
}

/* All 64 bits count, as with socket: a number with a high half is no family either. */
static void add_socketpair(scmp_filter_ctx c)
{
	must(seccomp_rule_add(c, SCMP_ACT_ALLOW, SCMP_SYS(socketpair), 1, SCMP_A0(SCMP_CMP_EQ, AF_UNIX)), "socketpair");
	must(seccomp_rule_add(c, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(socketpair), 1, SCMP_A0(SCMP_CMP_NE, AF_UNIX)),
	     "socketpair");
}

static void add_ns_call(scmp_filter_ctx c, int nr, uint64_t extra)
{
	uint64_t all = extra;

	for (size_t i = 0; i < sizeof(ns_flags) / sizeof(ns_flags[0]); i++)
		all |= ns_flags[i];
	must(seccomp_rule_add(c, SCMP_ACT_ALLOW, nr, 1, SCMP_A0(SCMP_CMP_MASKED_EQ, all, 0)), "clone");
	for (size_t i = 0; i < sizeof(ns_flags) / sizeof(ns_flags[0]); i++)
		must(seccomp_rule_add(c, SCMP_ACT_ERRNO(EPERM), nr, 1,
				      SCMP_A0(SCMP_CMP_MASKED_EQ, ns_flags[i], ns_flags[i])), "clone");
	if (extra != 0)
		must(seccomp_rule_add(c, SCMP_ACT_ERRNO(EPERM), nr, 1,
				      SCMP_A0(SCMP_CMP_MASKED_EQ, extra, extra)), "unshare");
}

static void add_personality(scmp_filter_ctx c)
{
	static const uint64_t ok[] = {0, 8, 0x20000, 0x20008, 0x40000, 0xffffffff};

	for (size_t i = 0; i < sizeof(ok) / sizeof(ok[0]); i++)
		must(seccomp_rule_add(c, SCMP_ACT_ALLOW, SCMP_SYS(personality), 1,
				      SCMP_A0(SCMP_CMP_EQ, ok[i])), "personality");
	must(seccomp_rule_add(c, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(personality), 1,
			      SCMP_A0(SCMP_CMP_EQ, 0x400000)), "personality");
}

/*
 * ioctl numbers are 32 bits wide in the kernel, so only the low half of the argument counts. A rule
 * cannot say "not equal under a mask": everything else is allowed bit by bit. The two refused numbers
 * agree in all bits of `same`; a number that differs in one of those is allowed, and of the few that
 * do not, all but the two.
 */
static void add_ioctl(scmp_filter_ctx c)
{
	const uint64_t low = 0xffffffff, same = low & ~(uint64_t)(TIOCSTI ^ TIOCLINUX);

	for (int b = 0; b < 32; b++) {
		uint64_t bit = UINT64_C(1) << b;

		if ((same & bit) != 0)
			must(seccomp_rule_add(c, SCMP_ACT_ALLOW, SCMP_SYS(ioctl), 1,
					      SCMP_A1(SCMP_CMP_MASKED_EQ, bit, ~(uint64_t)TIOCSTI & bit)), "ioctl");
	}
	for (uint64_t v = 0; v <= (low & ~same); v++) {
		uint64_t nr = (TIOCSTI & same) | v;

		if ((v & same) != 0)
			continue;
		must(seccomp_rule_add(c, nr == TIOCSTI || nr == TIOCLINUX ? SCMP_ACT_ERRNO(EPERM) : SCMP_ACT_ALLOW,
				      SCMP_SYS(ioctl), 1, SCMP_A1(SCMP_CMP_MASKED_EQ, low, nr)), "ioctl");
	}
}

static void add_args(scmp_filter_ctx c, const struct row *r)
{
	if (r->nr == SCMP_SYS(socket))
		add_socket(c);
	else if (r->nr == SCMP_SYS(socketpair))
		add_socketpair(c);
	else if (r->nr == SCMP_SYS(clone))
		add_ns_call(c, r->nr, 0);
	else if (r->nr == SCMP_SYS(unshare))
		add_ns_call(c, r->nr, NS_TIME);
	else if (r->nr == SCMP_SYS(personality))
		add_personality(c);
	else if (r->nr == SCMP_SYS(ioctl))
		add_ioctl(c);
	else if (r->nr == SCMP_SYS(clone3))
		must(seccomp_rule_add(c, SCMP_ACT_ALLOW, r->nr, 1, SCMP_A0(SCMP_CMP_EQ, AGENT_CLONE3_ARGS)), "clone3");
	else
		must(-EINVAL, r->name);
}

static scmp_filter_ctx new_ctx(uint32_t def)
{
	scmp_filter_ctx c = seccomp_init(def);

	if (c == NULL)
		must(-ENOMEM, "seccomp_init");
	must(seccomp_attr_set(c, SCMP_FLTATR_CTL_OPTIMIZE, 2), "binary tree");
	must(seccomp_attr_set(c, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_ERRNO(ENOSYS)), "bad arch");
	return c;
}

static void print_program(scmp_filter_ctx c, const char *name)
{
	int fd = memfd_create("bpf", 0);
	struct sock_filter f;
	unsigned n = 0;

	if (fd < 0)
		must(-errno, "memfd_create");
	must(seccomp_export_bpf(c, fd), "export");
	if (lseek(fd, 0, SEEK_SET) != 0)
		must(-errno, "lseek");
	printf("__attribute__((unused)) static const struct sock_filter seccomp_%s[] = {\n", name);
	while (read(fd, &f, sizeof(f)) == (ssize_t)sizeof(f)) {
		printf("\t{0x%02x, %u, %u, 0x%08x},\n", f.code, f.jt, f.jf, f.k);
		n++;
	}
	printf("};\n__attribute__((unused)) static const unsigned short seccomp_%s_len = %u;\n\n", name, n);
	if (n == 0 || n > 4096)
		must(-E2BIG, name);
	close(fd);
	seccomp_release(c);
}

static void print_doc(void)
{
	static const char *const title[] = {"Allowed", NULL, "Refused with EPERM", "Checked by argument"};

	for (int k = ROW_ALLOW; k <= ROW_ARGS; k++) {
		if (title[k] == NULL)
			continue;
		printf("## %s\n\n", title[k]);
		for (int i = 0; i < NROWS; i++) {
			if ((int)rows[i].kind == k && k != ROW_ALLOW)
				printf("- `%s`: %s\n", rows[i].name, rows[i].why);
			else if (k == ROW_ALLOW && rows[i].kind <= ROW_NR)
				printf("`%s` ", rows[i].name);
		}
		printf("\n\n");
	}
}

int main(int argc, char **argv)
{
	scmp_filter_ctx base;

	if (argc > 1 && strcmp(argv[1], "--doc") == 0) {
		print_doc();
		return 0;
	}
	base = new_ctx(SCMP_ACT_ERRNO(ENOSYS));
	for (int i = 0; i < NROWS; i++) {
		const struct row *r = &rows[i];

		if (r->kind == ROW_ARGS)
			add_args(base, r);
		else
			must(seccomp_rule_add(base, r->kind == ROW_DENY ? SCMP_ACT_ERRNO(EPERM) : SCMP_ACT_ALLOW,
					      r->nr, 0), r->name);
	}
	printf("/* Generated by tools/gen_seccomp.c from src/tier/container/seccomp.def. */\n#pragma once\n"
	       "#include <linux/filter.h>\n\n");
	print_program(base, "filter");
	return 0;
}
