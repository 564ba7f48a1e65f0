/*
 * An agent that reports walls of its own making, compares nothing, and says at once that the command ended with exit
 * code 42. Started in brig-init's place. Which lie it tells is in its own file, where the test writes it: the two digits
 * after "lie=". 00 is a report of walls as they should be. A command that is not to be measured ends with 43.
 */
#include "guest/probe.h"
#include "sys/file.h"
#include "wire/frame.h"
#include "wire/request.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { STREAM_FD = 3, RAN = 42, NOT_MEASURED = 43 };

static const volatile char which[] = "lie=00";

static struct probe p;

/* What a good agent would have found, as far as this one can know. */
static void honest(void)
{
	static char text[32 * 1024];
	struct probe_view v = {.self_fd = open("/proc/self", O_PATH | O_CLOEXEC),
			       .text = text,
			       .room = sizeof(text)};

	p = (struct probe){.head = {PROBE_MAGIC, PROBE_VERSION, 0, 0}};
	probe_command(&p.command, &v);
	probe_task(&p.init, &v);
	probe_sandbox(&p, &v);
	probe_world(&p.world, true);
	p.command.fds = 0;
	p.command.pids = 2;
	p.command.task.pid = 2;
	memset(p.command.task.caps, 0, sizeof(p.command.task.caps));
	p.command.task.outside = p.init.outside = EACCES;
}

/* Returns the bytes to send. */
static size_t lie(int nr)
{
	struct probe_task *t = &p.command.task;

	switch (nr) {
	case 1:
		t->caps[PROBE_CAP_EFF] = 1u << 21;
		break;
	case 2:
		t->no_new_privs = 0;
		break;
	case 3:
		p.init.seccomp_mode = 0;
		break;
	case 4:
		t->call[PROBE_CALL_mount] = 0;
		break;
	case 5:
		t->ns[PROBE_NS_net] = p.init.ns[PROBE_NS_net] = 0;
		break;
	case 6:
		p.world.covered[PROBE_COVERED_kallsyms] = PROBE_OPEN;
		break;
	case 7:
		p.world.reach[PROBE_REACH_TCP4] = 0;
		break;
	case 8:
		memcpy(p.if_name[0], "eth0", 5);
		break;
	case 9:
		p.mount[0].flags = 0;
		break;
	case 10:
		p.uid_maps = 0;
		memset(p.uid_map, 0, sizeof(p.uid_map));
		break;
	case 11:
		p.release[0] = 'x';
		break;
	case 12:
		p.command.hard[PROBE_LIMIT_CORE] = 1 << 20;
		break;
	case 13:
		p.world.disk++;
		p.world.inodes = 0;
		break;
	case 20:
		return probe_size(&p) - 1;
	case 21:
		p.head.version++;
		break;
	case 22:
		p.agent[0] = '\x1b';
		break;
	case 23:
		p.mounts = UINT32_MAX;
		return sizeof(p);
	case 24:
		return 1;
	case 27:
		p.head.differences = 1;
		break;
	default:
		break;
	}
	return probe_size(&p);
}

static void send_frame(enum frame_type type, uint32_t stream, uint8_t chan, const void *data,
		       size_t n)
{
	uint8_t h[FRAME_HDR];

	frame_header(h, type, stream, chan, 0, (uint32_t)n);
	if (file_write_all(STREAM_FD, h, sizeof(h)) < 0 || file_write_all(STREAM_FD, data, n) < 0)
		_exit(1);
}

static void send_result(uint32_t stream, unsigned code)
{
	struct buf b = {.max = 4096};
	struct msg_writer w = {.b = &b};

	msg_u64(&w, F_HOW, HOW_EXIT);
	msg_u64(&w, F_CODE, code);
	msg_u64(&w, F_UTIME, 0);
	msg_u64(&w, F_STIME, 0);
	msg_u64(&w, F_MAXRSS, 0);
	msg_u64(&w, F_WALL, 0);
	send_frame(FRAME_RESULT, stream, 0, buf_head(&b), b.len);
	buf_done(&b);
}

/* Report over the socket. The code to end with. */
static unsigned report(int sock_fd)
{
	int nr = (which[4] - '0') * 10 + which[5] - '0';
	size_t n;

	if (nr == 25) /* none at all, and the result says all is well */
		return 0;
	if (nr == 26) /* silence */
		for (;;)
			(void)pause();
	honest();
	n = lie(nr);
	if (send(sock_fd, &p, n, MSG_NOSIGNAL) != (ssize_t)n)
		_exit(1);
	return RAN;
}

static void answer(const struct frame *f, int sock_fd)
{
	struct msg_reader r = msg_reader(f->payload, f->len);
	struct msg_item it;
	uint64_t flags = 0;

	if (f->type != FRAME_OPEN)
		return;
	while (msg_next(&r, &it) > 0)
		flags = it.field == F_FLAGS ? it.u64 : flags;
	send_result(f->stream,
		    (flags & REQ_FD_MEASURE) != 0 && sock_fd >= 0 ? report(sock_fd) : NOT_MEASURED);
}

/* The socket is the last but one of the descriptors that come with the request. */
static ssize_t receive(void *at, size_t room, int *sock_fd)
{
	union {
		struct cmsghdr h;
		char b[CMSG_SPACE(8 * sizeof(int))];
	} c;
	struct iovec v = {.iov_base = at, .iov_len = room};
	struct msghdr m = {
	    .msg_iov = &v, .msg_iovlen = 1, .msg_control = c.b, .msg_controllen = sizeof(c.b)};
	ssize_t n = recvmsg(STREAM_FD, &m, MSG_CMSG_CLOEXEC);

	for (struct cmsghdr *h = n > 0 ? CMSG_FIRSTHDR(&m) : NULL; h != NULL;
	     h = CMSG_NXTHDR(&m, h)) {
		size_t fds = (h->cmsg_len - CMSG_LEN(0)) / sizeof(int);

		if (h->cmsg_type != SCM_RIGHTS || fds < 3)
			continue;
		memcpy(sock_fd, CMSG_DATA(h) + (fds - 2) * sizeof(int), sizeof(int));
	}
	return n;
}

int main(void)
{
	struct buf in = {.max = 1 << 20};
	uint8_t hello[HELLO_LEN];
	int sock_fd = -1;

	hello_encode(hello, HELLO_FD_PASS);
	send_frame(FRAME_HELLO, 0, 0, hello, sizeof(hello));
	for (;;) {
		uint8_t *at = buf_reserve(&in, 65536);
		ssize_t n = at == NULL ? 0 : receive(at, 65536, &sock_fd);
		struct frame f;
		int used;

		if (n <= 0)
			return 0;
		buf_commit(&in, (size_t)n);
		while ((used = frame_decode(buf_head(&in), in.len, FRAME_TO_AGENT, &f)) > 0) {
			answer(&f, sock_fd);
			buf_consume(&in, (size_t)used);
		}
	}
}
