/*
 * An agent that answers PROBE with a report of its own making, and whatever else is asked with exit
 * code 42. Started in brig-init's place. Which lie it tells is in its own file, where the test
 * writes it: the two digits after "lie=". 00 is a report of walls as they should be.
 */
#include "guest/probe.h"
#include "sys/file.h"
#include "wire/frame.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { STREAM_FD = 3, HOST_SAW_COMMAND = 42 };

static const volatile char which[] = "lie=00";

static struct probe p;

/* What a good agent would have found, as far as this one can know. */
static void honest(void)
{
	p = (struct probe){.magic = PROBE_MAGIC, .version = PROBE_VERSION};
	probe_command(&p.command);
	probe_task(&p.init, -1);
	probe_sandbox(&p);
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
		p.command.covered[PROBE_COVERED_kallsyms] = PROBE_OPEN;
		break;
	case 7:
		p.command.reach[PROBE_REACH_TCP4] = 0;
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
	case 20:
		return probe_size(&p) - 1;
	case 21:
		p.version++;
		break;
	case 22:
		p.agent[0] = '\x1b';
		break;
	case 23:
		p.mounts = UINT32_MAX;
		return sizeof(p);
	case 24:
		return 1;
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

static void send_result(uint32_t stream, bool probe)
{
	struct buf b = {.max = 4096};
	struct msg_writer w = {.b = &b};

	msg_u64(&w, F_HOW, probe ? HOW_DONE : HOW_EXIT);
	if (!probe) {
		msg_u64(&w, F_CODE, HOST_SAW_COMMAND);
		msg_u64(&w, F_UTIME, 0);
		msg_u64(&w, F_STIME, 0);
		msg_u64(&w, F_MAXRSS, 0);
	}
	msg_u64(&w, F_WALL, 0);
	send_frame(FRAME_RESULT, stream, 0, buf_head(&b), b.len);
	buf_done(&b);
}

static void answer(const struct frame *f)
{
	struct msg_reader r = msg_reader(f->payload, f->len);
	struct msg_item it;
	uint64_t kind = 0;

	if (f->type != FRAME_OPEN)
		return;
	while (msg_next(&r, &it) > 0)
		kind = it.field == F_KIND ? it.u64 : kind;
	if (kind == REQ_PROBE) {
		honest();
		size_t n = lie((which[4] - '0') * 10 + which[5] - '0');

		send_frame(FRAME_DATA, f->stream, CHAN_OUT, &p, n);
	}
	send_result(f->stream, kind == REQ_PROBE);
}

int main(void)
{
	struct buf in = {.max = 1 << 20};
	uint8_t hello[HELLO_LEN];

	hello_encode(hello, HELLO_FD_PASS);
	send_frame(FRAME_HELLO, 0, 0, hello, sizeof(hello));
	for (;;) {
		uint8_t *at = buf_reserve(&in, 65536);
		ssize_t n =
		    at == NULL ? 0 : recv(STREAM_FD, at, 65536, 0); /* descriptors are dropped */
		struct frame f;
		int used;

		if (n <= 0)
			return 0;
		buf_commit(&in, (size_t)n);
		while ((used = frame_decode(buf_head(&in), in.len, FRAME_TO_AGENT, &f)) > 0) {
			answer(&f);
			buf_consume(&in, (size_t)used);
		}
	}
}
