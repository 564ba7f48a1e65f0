/*
 * gate_guest: a machine behind the gate, without a virtual machine. It makes the network a tier
 * with TAP interfaces will make (net/net.h with a guest), gives its sockets to a real brig-gate,
 * and runs a program in a second namespace that plays the guest: its only interface is another TAP,
 * and this tool carries frames between the two, as a monitor would.
 *
 *   gate_guest tproxy|redirect RULES RECORDS PROGRAM ARGUMENT...
 *
 * RULES is a file of rules as spec.h has them (text). Exits as the program does. Needs root, for
 * /dev/net/tun.
 */
#include "base/cleanup.h"
#include "gate/judge.h"
#include "net/net.h"
#include "spawn/gate.h"
#include "sys/file.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <net/route.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FRAME_MAX = 65536, TEXT_MAX = 65536, EXIT_TOOL = 99 };

static _Noreturn void fail(const char *what)
{
	(void)fprintf(stderr, "gate_guest: %s: %s\n", what, strerror(errno));
	_exit(EXIT_TOOL);
}

static void up(const char *name)
{
	_cleanup_close_ int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct ifreq ifr = {.ifr_flags = IFF_UP | IFF_RUNNING};

	(void)snprintf(ifr.ifr_name, sizeof(ifr.ifr_name), "%s", name);
	if (fd < 0 || ioctl(fd, SIOCSIFFLAGS, &ifr) < 0)
		fail(name);
}

static int tap(const char *name)
{
	struct ifreq ifr = {.ifr_flags = IFF_TAP | IFF_NO_PI};
	int fd = open("/dev/net/tun", O_RDWR | O_CLOEXEC | O_NONBLOCK);

	(void)snprintf(ifr.ifr_name, sizeof(ifr.ifr_name), "%s", name);
	if (fd < 0 || ioctl(fd, TUNSETIFF, &ifr) < 0)
		fail("/dev/net/tun");
	return fd;
}

static struct sockaddr inet(const char *text)
{
	struct sockaddr_in s = {.sin_family = AF_INET};
	struct sockaddr ret;

	if (inet_pton(AF_INET, text, &s.sin_addr) != 1)
		fail(text);
	memcpy(&ret, &s, sizeof(ret));
	return ret;
}

/* The guest's own network: its interface, its address, its way out. */
static int guest_side(void)
{
	_cleanup_close_ int fd = -1;
	int tap_fd;
	struct ifreq ifr = {.ifr_name = "eth0"};
	struct rtentry rt = {.rt_flags = RTF_UP | RTF_GATEWAY};

	if (unshare(CLONE_NEWNET) < 0)
		fail("the guest's namespace");
	tap_fd = tap("eth0");
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	up("lo");
	ifr.ifr_addr = inet(NET_GUEST_TEXT);
	if (fd < 0 || ioctl(fd, SIOCSIFADDR, &ifr) < 0)
		fail("the guest's address");
	ifr.ifr_netmask = inet("255.255.255.252");
	if (ioctl(fd, SIOCSIFNETMASK, &ifr) < 0)
		fail("the guest's netmask");
	up("eth0");
	rt.rt_dst = inet("0.0.0.0");
	rt.rt_genmask = inet("0.0.0.0");
	rt.rt_gateway = inet(NET_GATEWAY_TEXT);
	if (ioctl(fd, SIOCADDRT, &rt) < 0)
		fail("the guest's route");
	return tap_fd;
}

static void carry(int from, int to)
{
	static uint8_t frame[FRAME_MAX];
	ssize_t n;

	while ((n = read(from, frame, sizeof(frame))) > 0)
		(void)!write(to, frame, (size_t)n); /* a full queue drops it, as a wire would */
}

/* Until the program ends. */
static int carry_all(int host_fd, int guest_fd, pid_t program)
{
	int pid_fd = -1, status = 0;
	struct pollfd p[3] = {{.fd = host_fd, .events = POLLIN},
			      {.fd = guest_fd, .events = POLLIN}};

	pid_fd = (int)syscall(434 /* pidfd_open */, program, 0);
	p[2] = (struct pollfd){.fd = pid_fd, .events = POLLIN};
	while (pid_fd >= 0 && poll(p, 3, -1) >= 0 && p[2].revents == 0) {
		carry(host_fd, guest_fd);
		carry(guest_fd, host_fd);
	}
	(void)waitpid(program, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_TOOL;
}

static void map_root(void)
{
	if (file_put(AT_FDCWD, "/proc/self/setgroups", "deny") < 0 ||
	    file_put(AT_FDCWD, "/proc/self/uid_map", "0 0 1") < 0 ||
	    file_put(AT_FDCWD, "/proc/self/gid_map", "0 0 1") < 0)
		fail("maps");
}

/* Both namespaces; the sockets go out, then the program runs. */
static _Noreturn void inside(const struct net_plan *plan, int out, char **argv)
{
	struct net_socks socks;
	char why[200], byte;
	int host_fd, guest_fd;
	pid_t program;

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	if (unshare(CLONE_NEWUSER | CLONE_NEWNET) < 0)
		fail("namespaces");
	map_root();
	up("lo");
	host_fd = tap(NET_TAP_NAME);
	errno = -net_setup(plan, &socks, why, sizeof(why));
	if (errno != 0)
		fail(why);
	if (net_send(out, &socks) < 0)
		fail("handing out");
	net_socks_close(&socks);
	guest_fd = guest_side();
	if (read(out, &byte, 1) != 1)
		_exit(EXIT_TOOL);
	program = fork();
	if (program == 0) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
		execvp(argv[0], argv);
		fail(argv[0]);
	}
	_exit(carry_all(host_fd, guest_fd, program));
}

static void make_plan(struct net_plan *plan, const char *way, const char *text, size_t n)
{
	static struct net_range ranges[NET_RANGES_MAX];
	struct judge *j = NULL;
	struct err e = ERR_INIT;
	uint8_t guest[4];
	uint32_t k;

	(void)inet_pton(AF_INET, NET_GUEST_TEXT, guest);
	if (judge_new(text, n, &j, &e) < 0) {
		(void)fprintf(stderr, "gate_guest: %s\n", e.msg);
		exit(EXIT_TOOL);
	}
	k = judge_ranges(j, ranges, NET_RANGES_MAX);
	judge_free(j);
	if (k > NET_RANGES_MAX || net_plan_gate(plan, ranges, k, guest) < 0)
		fail("plan");
	plan->first = strcmp(way, "redirect") == 0 ? NET_REDIRECT : NET_TPROXY;
}

static void copy_records(int from, int to, int wait_ms)
{
	struct pollfd p = {.fd = from, .events = POLLIN};
	char text[4096];

	while (poll(&p, 1, wait_ms) > 0) {
		ssize_t n = read(from, text, sizeof(text));

		if (n <= 0 || file_write_all(to, text, (size_t)n) < 0)
			return;
	}
}

int main(int argc, char **argv)
{
	static struct net_plan plan;
	static char text[TEXT_MAX];
	struct net_socks socks;
	struct gate gate;
	struct err e = ERR_INIT;
	const char *why = "";
	int sock[2], status = 0, records_fd;
	ssize_t n;
	pid_t pid;

	if (argc < 5)
		return EXIT_TOOL;
	n = file_get(AT_FDCWD, argv[2], text, sizeof(text));
	records_fd = open(argv[3], O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	if (n < 0 || records_fd < 0 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sock) < 0)
		fail("start");
	make_plan(&plan, argv[1], text, (size_t)n);
	pid = fork();
	if (pid == 0) {
		(void)close(sock[0]);
		inside(&plan, sock[1], argv + 4);
	}
	(void)close(sock[1]);
	gate_init(&gate);
	if (pid < 0 || net_take(sock[0], &socks) < 0)
		return EXIT_TOOL; /* the child has said why */
	errno = -net_load(&plan, &socks, &why);
	if (errno != 0)
		fail(why);
	if (gate_start(&gate, &e) < 0 ||
	    gate_rules(&gate, &(struct gate_who){.sandbox = "guest", .tier = "microvm"}, text, (size_t)n, -1, &e) < 0 ||
	    gate_give(&gate, &socks, &e) < 0) {
		(void)fprintf(stderr, "gate_guest: %s\n", e.msg);
		gate_done(&gate);
		return EXIT_TOOL;
	}
	(void)!write(sock[0], "g", 1);
	(void)waitpid(pid, &status, 0);
	gate_detach(&gate);
	copy_records(gate.rec_fd, records_fd, 10000);
	gate_done(&gate);
	return WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_TOOL;
}
