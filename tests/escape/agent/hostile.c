/*
 * A program in the agent's place: PID 1 of the sandbox with the agent's capabilities, its stream to brig
 * and its cgroup leaf. It does what the first word of the command says (brig sends it with EXEC):
 *
 *   attack:NAME ARGS   the attack NAME of the folder above, in a child with all of this (leaf=FD added)
 *   pack:WORD          a hostile pack stream as answer to each PACK_OUT
 *   WORD               a broken protocol
 *
 * PACK_IN is read and forgotten. Everything it gets comes from brig and is taken as right.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { HELLO = 1, OPEN, DATA, END_OF_FILE, CREDIT, BROKEN, SIGNAL, RESIZE, START, RESULT, RESET, PING };
enum { F_KIND = 1, F_FLAGS = 2, F_ARG = 3, F_HOW = 32, F_CODE, F_ERRNO, F_TEXT };
enum { K_EXEC = 1, K_PACK_IN = 10, K_PACK_OUT = 11, CHAN_OUT = 1, CHAN_ERR = 2, WINDOW = 256 * 1024 };
enum { HAS_STDIN = 1 << 1, FD_STDIO = 1 << 2, FD_LEAF = 1 << 3 };

struct attack_row {
	const char *name;
	int (*run)(int argc, char **argv);
};
#define ATTACK(id) int main_##id(int argc, char **argv);
#include "attacks.def"
#undef ATTACK
static const struct attack_row attacks[] = {
#define ATTACK(id) {#id, main_##id},
#include "attacks.def"
#undef ATTACK
};

static int stream_fd = -1, leaf_fd = -1, fds[8], nfds;
static int *out_fds; /* standard output and error, NULL = framed */
static char *words[64];
static int nwords;
static const char *mode = "";

/* ---- sending ---- */
static void send_all(const void *p, size_t n)
{
	const char *c = p;

	while (n > 0) {
		ssize_t w = send(stream_fd, c, n, MSG_NOSIGNAL);

		if (w < 0 && errno != EINTR)
			_exit(0); /* brig is gone, and so are we */
		if (w > 0) {
			c += w;
			n -= (size_t)w;
		}
	}
}

static void frame(int type, uint32_t stream, int chan, const void *p, uint32_t n)
{
	static uint8_t b[12 + 65536];

	memcpy(b, &n, 4);
	memcpy(b + 4, &stream, 4);
	b[8] = (uint8_t)type;
	b[9] = (uint8_t)chan;
	b[10] = b[11] = 0;
	memcpy(b + 12, p, n);
	send_all(b, 12 + n);
}

static void u32_frame(int type, uint32_t stream, int chan, uint32_t v) { frame(type, stream, chan, &v, 4); }

static void hello(void)
{
	uint8_t h[16] = {'B', 'R', 'I', 'G', 1, 0, 1, 0, 1};

	frame(HELLO, 0, 0, h, sizeof(h));
}

static size_t field(uint8_t *b, uint16_t nr, const void *p, uint32_t n)
{
	memset(b, 0, 8);
	memcpy(b, &nr, 2);
	memcpy(b + 4, &n, 4);
	memcpy(b + 8, p, n);
	return 8 + n;
}

static void result(uint32_t stream, uint64_t how, uint64_t code, const char *text)
{
	uint8_t b[2048];
	uint64_t wall = 1;
	size_t n = field(b, F_HOW, &how, 8);

	n += field(b + n, how == 3 ? F_ERRNO : F_CODE, &code, how == 0 ? 0 : 8);
	if (how == 0)
		n -= 8;
	if (text)
		n += field(b + n, F_TEXT, text, (uint32_t)strlen(text));
	n += field(b + n, 39, &wall, 8);
	frame(RESULT, stream, 0, b, (uint32_t)n);
}

/* ---- pack streams ---- */
static struct {
	uint8_t b[1 << 20];
	size_t n;
} pk;
static uint32_t pk_stream;
static size_t pk_credit;

static int next_frame(void);

/* Within what brig granted: it must be the contents that stop us, not the protocol. */
static void pack_flush(void)
{
	size_t at = 0;

	while (at < pk.n) {
		size_t n = pk.n - at < 65536 ? pk.n - at : 65536;

		while (pk_credit == 0)
			if (!next_frame())
				_exit(0);
		n = n < pk_credit ? n : pk_credit;
		frame(DATA, pk_stream, CHAN_OUT, pk.b + at, (uint32_t)n);
		pk_credit -= n;
		at += n;
	}
	pk.n = 0;
}

static void bytes(const void *p, size_t n)
{
	if (pk.n + n > sizeof(pk.b))
		pack_flush();
	memcpy(pk.b + pk.n, p, n);
	pk.n += n;
}

static void entry(int type, unsigned perm, const char *path, const char *target, uint64_t size)
{
	uint8_t e[32] = {(uint8_t)type};
	uint32_t plen = (uint32_t)strlen(path), tlen = (uint32_t)strlen(target);

	e[2] = (uint8_t)perm;
	e[3] = (uint8_t)(perm >> 8);
	memcpy(e + 4, &plen, 4);
	memcpy(e + 8, &tlen, 4);
	memcpy(e + 16, &size, 8);
	bytes(e, 32);
	bytes(path, plen);
	bytes(target, tlen);
}

static void chunk(const char *text)
{
	uint32_t n = (uint32_t)strlen(text);

	bytes(&n, 4);
	bytes(text, n);
}

static void file(const char *path, const char *text)
{
	entry(2, 0644, path, "", strlen(text));
	if (*text)
		chunk(text);
	chunk("");
}

static void endless(const char *what)
{
	static char big[65536];
	uint32_t hole = 0x80000000u;
	uint64_t n = UINT64_C(1) << 38;
	char name[32];

	memset(big, 'x', sizeof(big) - 1);
	if (!strcmp(what, "data"))
		entry(2, 0644, "f", "", UINT64_C(1) << 39);
	for (uint64_t i = 0;; i++) {
		(void)snprintf(name, sizeof(name), "n%llu", (unsigned long long)i);
		if (!strcmp(what, "data")) {
			chunk(big);
		} else if (!strcmp(what, "entries")) {
			entry(1, 0755, name, "", 0);
		} else if (!strcmp(what, "links")) {
			entry(3, 0777, name, "/etc", 0);
		} else {
			entry(2, 0644, name, "", n);
			bytes(&hole, 4);
			bytes(&n, 8);
			chunk("");
		}
		if (pk.n > 200000)
			pack_flush();
	}
}

/* What a writer could send that leads out of the destination, is no file, or never ends. */
static void pack_body(const char *w)
{
	static char deep[8192];

	if (!strcmp(w, "root-link")) {
		entry(3, 0777, "", "..", 0);
		return;
	}
	entry(1, 0777, "", "", 0);
	if (!strcmp(w, "fine")) {
		file("fine", "fine");
	} else if (!strcmp(w, "dotdot")) {
		file("../escaped", "x");
	} else if (!strcmp(w, "dotdot-deep")) {
		entry(1, 0755, "d", "", 0);
		file("d/../../escaped", "x");
	} else if (!strcmp(w, "absolute")) {
		file("/tmp/brig-escaped", "x");
	} else if (!strcmp(w, "link-up")) {
		entry(3, 0777, "l", "..", 0);
		file("l/escaped", "x");
	} else if (!strcmp(w, "link-absolute")) {
		entry(3, 0777, "l", words[1] ? words[1] : "/tmp", 0);
		file("l/escaped", "x");
	} else if (!strcmp(w, "link-file")) {
		entry(3, 0777, "l", words[1] ? words[1] : "/tmp", 0);
		file("l", "changed");
	} else if (!strcmp(w, "link-chain")) {
		entry(1, 0755, "a", "", 0);
		entry(3, 0777, "a/up", "..", 0);
		entry(3, 0777, "x", "a/up/..", 0);
		file("x/escaped", "x");
		file("a/up/y/escaped", "x");
	} else if (!strcmp(w, "old-link")) { /* the destination already has this link out */
		file("out/escaped", "x");
	} else if (!strcmp(w, "old-file-link")) {
		file("canary", "changed");
	} else if (!strcmp(w, "device")) {
		entry(4, 0644, "dev", "", 0);
	} else if (!strcmp(w, "fifo")) {
		entry(5, 0644, "fifo", "", 0);
	} else if (!strcmp(w, "setuid")) {
		entry(2, 04755, "suid", "", 0);
	} else if (!strcmp(w, "huge")) {
		entry(2, 0644, "huge", "", INT64_MAX);
	} else if (!strcmp(w, "more-than-said")) {
		entry(2, 0644, "f", "", 1);
		chunk("more than one");
	} else if (!strcmp(w, "two-roots")) {
		entry(1, 0777, "", "", 0);
	} else if (!strcmp(w, "nul")) {
		uint8_t e[32] = {2, 0, 0, 0, 3};

		bytes(e, 32);
		bytes("a\0b", 3);
	} else if (!strcmp(w, "long-path")) {
		memset(deep, 'a', sizeof(deep) - 1);
		entry(2, 0644, deep, "", 0);
	} else if (!strcmp(w, "escapes")) { /* left out, so told to a person */
		entry(3, 0777, "\033]0;owned\007\033[2J\nnew line", "/etc/passwd", 0);
	} else if (!strncmp(w, "endless-", 8)) {
		endless(w + 8);
	} else if (!strcmp(w, "noise")) {
		for (int i = 0; i < 4096; i++)
			bytes(&(uint8_t){(uint8_t)(i * 37)}, 1);
	}
}

static void pack_out(uint32_t stream)
{
	uint8_t end[32] = {0};

	pk_stream = stream;
	pk_credit = WINDOW;
	if (!strncmp(mode, "pack:", 5)) {
		bytes("BRGPACK1", 8);
		pack_body(mode + 5);
		if (strcmp(mode, "pack:cut"))
			bytes(end, 32);
		pack_flush();
	}
	frame(END_OF_FILE, stream, CHAN_OUT, "", 0);
	result(stream, 0, 0, NULL);
}

/* ---- commands ---- */
static void run_attack(const char *name)
{
	char leaf[32];
	int status = 0;
	pid_t pid = fork();

	if (pid == 0) {
		for (int i = 0; out_fds && i < 2; i++)
			(void)dup2(out_fds[i], i + 1);
		(void)snprintf(leaf, sizeof(leaf), "leaf=%d", leaf_fd);
		words[nwords] = leaf;
		words[nwords + 1] = NULL;
		for (size_t i = 0; i < sizeof(attacks) / sizeof(*attacks); i++)
			if (!strcmp(attacks[i].name, name)) {
				int rc = attacks[i].run(nwords + 1, words);

				(void)fflush(stdout);
				_exit(rc);
			}
		_exit(99);
	}
	(void)waitpid(pid, &status, 0);
}

/* A descriptor for brig: is it kept there? Its other end knows. */
static int descriptor_kept(void)
{
	char control[CMSG_SPACE(sizeof(int))] = {0}, ping[20] = {8, 0, 0, 0, 0, 0, 0, 0, PING}, c;
	struct iovec v = {ping, sizeof(ping)};
	struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)};
	struct cmsghdr *h = CMSG_FIRSTHDR(&m);
	int p[2];

	if (pipe(p) < 0)
		return -1;
	h->cmsg_level = SOL_SOCKET;
	h->cmsg_type = SCM_RIGHTS;
	h->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(h), &p[1], sizeof(int));
	if (sendmsg(stream_fd, &m, MSG_NOSIGNAL) < 0)
		return -1;
	(void)close(p[1]);
	return poll(&(struct pollfd){p[0], POLLIN, 0}, 1, 5000) == 1 && read(p[0], &c, 1) == 0 ? 0 : 1;
}

static void nested_groups(int leaf)
{
	char name[16];
	int at = leaf;

	for (int i = 0; i < 40; i++) {
		int next;

		(void)snprintf(name, sizeof(name), "deep-%d", i);
		if (mkdirat(at, name, 0755) < 0)
			return;
		(void)mkdirat(at, "beside", 0755);
		next = openat(at, name, O_PATH | O_DIRECTORY | O_CLOEXEC);
		(void)fchmodat(at, "beside", 0, 0);
		if (i % 7 == 3)
			(void)fchmodat(at, name, 0, 0);
		at = next;
	}
}

static void forever(void)
{
	for (int i = 0; i < 8; i++)
		if (fork() == 0) {
			(void)setsid();
			for (;;)
				(void)pause();
		}
	for (;;)
		(void)pause();
}

static void exec_request(uint32_t id)
{
	static uint8_t big[65536];
	uint64_t many = 70000;
	uint8_t b[128];
	size_t n;

	if (!strcmp(mode, "silent"))
		forever();
	u32_frame(START, id, 0, 2);
	if (!strncmp(mode, "attack:", 7)) {
		run_attack(mode + 7);
	} else if (!strcmp(mode, "lie")) {
		result(id, 1, 7, NULL);
		return;
	} else if (!strcmp(mode, "started-only")) {
		forever();
	} else if (!strcmp(mode, "die")) {
		_exit(3);
	} else if (!strcmp(mode, "hang-up")) {
		(void)shutdown(stream_fd, SHUT_RDWR);
		(void)close(stream_fd);
		forever();
	} else if (!strcmp(mode, "garbage")) {
		for (size_t i = 0; i < sizeof(big); i++)
			big[i] = (uint8_t)(i * 73 + (i >> 8) * 11);
		send_all(big, sizeof(big));
	} else if (!strcmp(mode, "huge-frame")) {
		send_all("\xff\xff\xff\xff\1\0\0\0\3\1\0\0", 12);
	} else if (!strcmp(mode, "hello-again")) {
		hello();
	} else if (!strcmp(mode, "open")) {
		frame(OPEN, id, 0, "", 0);
	} else if (!strcmp(mode, "signal")) {
		u32_frame(SIGNAL, id, 0, 9);
	} else if (!strcmp(mode, "unknown-frame")) {
		frame(99, id, 0, "", 0);
	} else if (!strcmp(mode, "unknown-stream")) {
		result(id + 77, 1, 0, NULL);
	} else if (!strcmp(mode, "start-twice")) {
		u32_frame(START, id, 0, 3);
	} else if (!strcmp(mode, "result-twice")) {
		result(id, 1, 0, NULL);
		result(id, 1, 0, NULL);
		forever();
	} else if (!strcmp(mode, "code")) {
		n = field(b, F_HOW, &(uint64_t){1}, 8);
		n += field(b + n, F_CODE, &many, 8);
		frame(RESULT, id, 0, b, (uint32_t)n);
	} else if (!strcmp(mode, "no-how")) {
		frame(RESULT, id, 0, b, (uint32_t)field(b, F_CODE, &(uint64_t){0}, 8));
	} else if (!strcmp(mode, "text")) {
		result(id, 3, ENOENT, "\033]0;owned\007\033[2J\033[1;31mroot#\r\nnew line \xc2\x9b" "2J");
		return;
	} else if (!strcmp(mode, "long-text")) {
		char text[1100];

		memset(text, 'A', sizeof(text) - 1);
		text[sizeof(text) - 1] = 0;
		result(id, 3, ENOENT, text);
	} else if (!strcmp(mode, "credit")) {
		for (int i = 0; i < 16; i++)
			u32_frame(CREDIT, id, 0, UINT32_MAX);
	} else if (!strcmp(mode, "past-credit")) { /* standard output is framed */
		for (;;)
			frame(DATA, id, CHAN_OUT, big, sizeof(big));
	} else if (!strcmp(mode, "data-after-end")) {
		frame(END_OF_FILE, id, CHAN_OUT, "", 0);
		frame(DATA, id, CHAN_OUT, "x", 1);
	} else if (!strcmp(mode, "wrong-channel")) {
		frame(DATA, id, 0, "x", 1);
	} else if (!strcmp(mode, "pings")) { /* and never reads the answers */
		for (;;)
			frame(PING, 0, 0, "12345678", 8);
	} else if (!strcmp(mode, "descriptor")) {
		result(id, 1, descriptor_kept() == 0 ? 0 : 9, NULL);
		return;
	} else if (!strcmp(mode, "groups")) {
		nested_groups(leaf_fd);
	} else if (!strcmp(mode, "stay")) {
		result(id, 1, 0, NULL);
		for (int nr = 1; nr < 65; nr++)
			(void)signal(nr, SIG_IGN);
		forever();
	}
	for (int i = 0; out_fds && i < 2; i++)
		(void)close(out_fds[i]);
	result(id, 1, 0, NULL);
}

/* ---- receiving ---- */
static void read_all(uint8_t *p, size_t n)
{
	while (n > 0) {
		char control[CMSG_SPACE(sizeof(fds))];
		struct iovec v = {p, n};
		struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)};
		ssize_t r = recvmsg(stream_fd, &m, MSG_CMSG_CLOEXEC);
		struct cmsghdr *c;

		if (r <= 0)
			_exit(0);
		c = CMSG_FIRSTHDR(&m);
		if (c && c->cmsg_type == SCM_RIGHTS) {
			nfds = (int)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
			memcpy(fds, CMSG_DATA(c), (size_t)nfds * sizeof(int));
		}
		p += r;
		n -= (size_t)r;
	}
}

static void request(uint32_t id, const uint8_t *p, uint32_t len)
{
	static char text[65536];
	size_t used = 0;
	uint64_t kind = 0, flags = 0;

	for (uint32_t at = 0; at + 8 <= len;) {
		uint16_t nr;
		uint32_t n;

		memcpy(&nr, p + at, 2);
		memcpy(&n, p + at + 4, 4);
		if (nr == F_KIND)
			memcpy(&kind, p + at + 8, 8);
		if (nr == F_FLAGS)
			memcpy(&flags, p + at + 8, 8);
		if (nr == F_ARG && nwords < 60 && used + n < sizeof(text)) {
			words[nwords++] = text + used;
			memcpy(text + used, p + at + 8, n);
			used += n;
			text[used++] = 0;
		}
		at += 8 + n;
	}
	if (kind == K_EXEC) {
		mode = words[0];
		if (flags & FD_STDIO)
			out_fds = fds + !!(flags & HAS_STDIN);
		if (flags & FD_LEAF)
			leaf_fd = fds[nfds - 1];
		exec_request(id);
	} else if (kind == K_PACK_OUT) {
		pack_out(id);
	} else if (kind != K_PACK_IN) {
		result(id, 3, ENOSYS, NULL);
	}
}

static int next_frame(void)
{
	static uint8_t b[65536];
	uint8_t h[12];
	uint32_t n, id;

	read_all(h, 12);
	memcpy(&n, h, 4);
	memcpy(&id, h + 4, 4);
	read_all(b, n);
	if (h[8] == OPEN) {
		request(id, b, n);
	} else if (h[8] == DATA) {
		u32_frame(CREDIT, id, 0, n);
	} else if (h[8] == END_OF_FILE) {
		result(id, 0, 0, NULL);
	} else if (h[8] == CREDIT && id == pk_stream) {
		memcpy(&n, b, 4);
		pk_credit += n;
	} else if (h[8] == RESET || h[8] == BROKEN) {
		pk.n = 0;
		result(id, 3, ECANCELED, NULL);
		forever(); /* and stays */
	}
	return 1;
}

int main(int argc, char **argv)
{
	if (argc == 2 && !strcmp(argv[1], "look=1")) /* an attack that looks at itself after execve */
		return main_agent_place(argc, argv);
	(void)signal(SIGPIPE, SIG_IGN);
	for (int i = 1; i < argc; i++) {
		if (!strncmp(argv[i], "stream=", 7))
			stream_fd = (int)strtol(argv[i] + 7, NULL, 10);
		else if (!strncmp(argv[i], "leaf=", 5))
			leaf_fd = (int)strtol(argv[i] + 5, NULL, 10);
	}
	(void)fcntl(stream_fd, F_SETFL, 0);
	hello();
	while (next_frame())
		;
	return 0;
}
