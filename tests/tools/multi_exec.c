/*
 * multi_exec: one sandbox driven line by line, for the suites of several execs in one sandbox.
 *
 * Reads one JSON object per line from stdin and writes one JSON object per event to stdout. It is a
 * thin layer over spawn/runner.h and session/session.h; the suites decode records themselves, so
 * that the host's decoder is not its own witness. Fed by our own tests only; what the sandbox sends
 * is forwarded as hex and never looked at.
 *
 *   {"op":"start", "memory":N, "disk":N, "pids":N, "timeout_ms":N, "user":S, "tier":S, "image":S}
 *   {"op":"open", "id":N, "kind":"EXEC", "flags":["STDIN"], "argv":[..], "env":[..], "leaf":bool,
 *    "cwd":S "user":S "path":S "path2":S "mode":N "offset":N "length":N "depth":N "port":N
 *    "rows":N "cols":N, "count":bool}       count: bytes are counted, not forwarded
 *   {"op":"write", "id":N, "hex":S}         {"op":"fill", "id":N, "n":N}   n bytes of 'A', then EOF
 *   {"op":"eof"|"reset"|"stall"|"resume", "id":N}    {"op":"signal", "id":N, "sig":N}
 *   {"op":"resize", "id":N, "rows":N, "cols":N}      {"op":"leaf_kill", "id":N}
 *   {"op":"oom"} {"op":"kill"} {"op":"wait"} {"op":"sweep"} {"op":"soak", "n":N}
 *
 * The end of stdin kills the sandbox and ends the tool.
 */
#include "base/cleanup.h"
#include "base/num.h"
#include "core/spec.h"
#include "session/session.h"
#include "spawn/runner.h"
#include "wire/frame.h"
#include "wire/request.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { SLOTS = 512, LINE_MAX_BYTES = 8 * 1024 * 1024 };

struct slot {
	bool used, count_only, stalled, fill_eof;
	struct stream *s;
	uint64_t fill; /* bytes of 'A' still to write */
	uint64_t seen[CHAN_COUNT];
	struct buf held; /* bytes to write when credit comes */
};

static struct slot slots[SLOTS];
static struct runner *runner;
static struct session *session;
static bool session_dead;
static char fill_bytes[65536];

static void emit(json_t *o)
{
	char *s = json_dumps(o, JSON_COMPACT);

	if (s)
		printf("%s\n", s);
	free(s);
	json_decref(o);
	(void)fflush(stdout);
}

static double now_ms(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1000.0 + (double)t.tv_nsec / 1e6;
}

static void emit_rc(const char *ev, int64_t id, int rc, const struct err *e, double since)
{
	emit(json_pack("{s:s, s:I, s:i, s:s, s:f}", "ev", ev, "id", (json_int_t)id, "rc", rc, "text",
		       rc < 0 ? e->msg : "", "ms", now_ms() - since));
}

static json_t *hex(const uint8_t *p, size_t n)
{
	static const char digit[] = "0123456789abcdef";
	char *s = malloc(2 * n + 1);
	json_t *o;

	if (!s)
		return json_string("");
	for (size_t i = 0; i < n; i++) {
		s[2 * i] = digit[p[i] >> 4];
		s[2 * i + 1] = digit[p[i] & 15];
	}
	o = json_stringn(s, 2 * n);
	free(s);
	return o;
}

static int slot_id(const struct slot *t) { return (int)(t - slots); }

static ssize_t on_data(void *arg, struct stream *s, uint8_t chan, const void *p, size_t n)
{
	struct slot *t = arg;

	(void)s;
	if (t->stalled)
		return 0;
	t->seen[chan] += n;
	if (!t->count_only)
		emit(json_pack("{s:s, s:i, s:i, s:o}", "ev", "data", "id", slot_id(t), "chan", (int)chan,
			       "hex", hex(p, n)));
	return (ssize_t)n;
}

static void on_eof(void *arg, struct stream *s, uint8_t chan)
{
	struct slot *t = arg;

	(void)s;
	emit(json_pack("{s:s, s:i, s:i, s:I}", "ev", "eof", "id", slot_id(t), "chan", (int)chan, "bytes",
		       (json_int_t)t->seen[chan]));
}

static void push(struct slot *t)
{
	while (t->s && t->held.len > 0) {
		ssize_t w = stream_write(t->s, buf_head(&t->held), t->held.len);

		if (w <= 0)
			return;
		buf_consume(&t->held, (size_t)w);
	}
	while (t->s && t->fill > 0) {
		ssize_t w = stream_write(t->s, fill_bytes, (size_t)MIN(t->fill, sizeof(fill_bytes)));

		if (w <= 0)
			return;
		t->fill -= (uint64_t)w;
	}
	if (t->s && t->fill_eof) {
		t->fill_eof = false;
		stream_eof(t->s);
	}
}

static void on_writable(void *arg, struct stream *s)
{
	(void)s;
	push(arg);
}

static void on_broken(void *arg, struct stream *s, int err)
{
	struct slot *t = arg;

	(void)s;
	emit(json_pack("{s:s, s:i, s:i, s:I}", "ev", "broken", "id", slot_id(t), "err", err, "unsent",
		       (json_int_t)t->fill));
	t->fill = 0;
	t->fill_eof = false;
	buf_consume(&t->held, t->held.len);
}

static void on_started(void *arg, struct stream *s, uint32_t pid)
{
	(void)s;
	emit(json_pack("{s:s, s:i, s:I}", "ev", "started", "id", slot_id(arg), "pid", (json_int_t)pid));
}

static void on_result(void *arg, struct stream *s, const struct stream_result *r)
{
	struct slot *t = arg;

	(void)s;
	t->s = NULL;
	emit(json_pack("{s:s, s:i, s:i, s:i, s:i, s:s, s:I, s:I, s:I}", "ev", "result", "id", slot_id(t),
		       "how", (int)r->how, "code", (int)r->code, "err", r->err, "text", r->text, "out",
		       (json_int_t)t->seen[CHAN_OUT], "errbytes", (json_int_t)t->seen[CHAN_ERR], "wall_us",
		       (json_int_t)r->wall_us));
}

static const struct stream_ops ops = {.data = on_data,
				      .eof = on_eof,
				      .writable = on_writable,
				      .broken = on_broken,
				      .started = on_started,
				      .result = on_result};

static const struct word {
	const char *name;
	uint64_t value;
} kinds[] = {
#define KIND(id, nr, text) {#id, nr},
#include "wire/request_kinds.def"
#undef KIND
},
  flag_words[] = {{"TTY", REQ_TTY},
		  {"STDIN", REQ_STDIN},
		  {"NOFOLLOW", REQ_NOFOLLOW},
		  {"PARENTS", REQ_PARENTS},
		  {"APPEND", REQ_APPEND},
		  {"RECURSIVE", REQ_RECURSIVE},
		  {"GITIGNORE", REQ_GITIGNORE},
		  {"SOLE", REQ_SOLE}};

static uint64_t word_value(const struct word *w, size_t n, const char *name)
{
	for (size_t i = 0; name && i < n; i++)
		if (!strcmp(w[i].name, name))
			return w[i].value;
	return 0;
}

static const struct {
	const char *key;
	enum msg_field field;
} text_keys[] = {{"cwd", F_CWD}, {"user", F_USER}, {"path", F_PATH}, {"path2", F_PATH2}},
  number_keys[] = {{"mode", F_MODE},   {"offset", F_OFFSET}, {"length", F_LENGTH}, {"depth", F_DEPTH},
		   {"port", F_PORT},   {"rows", F_ROWS},     {"cols", F_COLS},     {"umask", F_UMASK}};

static void put_list(struct msg_writer *w, enum msg_field f, const json_t *list)
{
	for (size_t i = 0; i < json_array_size(list); i++)
		msg_str(w, f, json_string_value(json_array_get(list, i)));
}

static int open_stream(const json_t *o, int id, struct slot *t, struct err *e)
{
	struct buf b;
	struct msg_writer w = {.b = &b, .err = 0};
	_cleanup_close_ int leaf_fd = -1;
	const json_t *list = json_object_get(o, "flags");
	uint64_t flags = 0;
	int r = 0;

	for (size_t i = 0; i < json_array_size(list); i++)
		flags |= word_value(flag_words, ARRAY_LEN(flag_words),
				    json_string_value(json_array_get(list, i)));
	if (json_is_true(json_object_get(o, "leaf"))) {
		r = runner_leaf(runner, (uint32_t)id, &leaf_fd, e);
		if (r < 0)
			return r;
		flags |= REQ_FD_LEAF;
	}
	buf_init(&b, FRAME_OPEN_MAX);
	msg_u64(&w, F_KIND,
		word_value(kinds, ARRAY_LEN(kinds), json_string_value(json_object_get(o, "kind"))));
	msg_u64(&w, F_FLAGS, flags);
	put_list(&w, F_ARG, json_object_get(o, "argv"));
	put_list(&w, F_ENV, json_object_get(o, "env"));
	for (size_t i = 0; i < ARRAY_LEN(text_keys); i++)
		if (json_object_get(o, text_keys[i].key))
			msg_str(&w, text_keys[i].field,
				json_string_value(json_object_get(o, text_keys[i].key)));
	for (size_t i = 0; i < ARRAY_LEN(number_keys); i++)
		if (json_object_get(o, number_keys[i].key))
			msg_u64(&w, number_keys[i].field,
				(uint64_t)json_integer_value(json_object_get(o, number_keys[i].key)));
	if (w.err < 0)
		r = err_set(e, ERR_INVALID, -w.err, "building the request");
	if (r == 0)
		r = session_open(session, &b, &leaf_fd, leaf_fd >= 0 ? 1 : 0, &ops, t, &t->s, e);
	buf_done(&b);
	return r;
}

static int op_start(const json_t *o, struct err *e)
{
	struct spec spec;
	const char *s;
	json_t *v;
	int r;

	spec_init(&spec);
	spec_new_id(&spec);
	s = json_string_value(json_object_get(o, "tier"));
	spec.tier = strdup(s ? s : "container");
	s = json_string_value(json_object_get(o, "image"));
	spec.image = strdup(s ? s : "host");
	if ((s = json_string_value(json_object_get(o, "user"))))
		spec.user = strdup(s);
	if ((v = json_object_get(o, "memory")))
		spec.memory = (uint64_t)json_integer_value(v);
	if ((v = json_object_get(o, "disk")))
		spec.disk = (uint64_t)json_integer_value(v);
	if ((v = json_object_get(o, "pids")))
		spec.pids = (uint32_t)json_integer_value(v);
	if ((v = json_object_get(o, "timeout_ms")))
		spec.timeout_ms = (uint64_t)json_integer_value(v);
	r = spec_check(&spec, e);
	if (r == 0)
		r = runner_new(&spec, false, &runner, e);
	if (r == 0)
		r = runner_start(runner, e);
	if (r == 0)
		r = runner_hold(runner, e);
	if (r == 0)
		r = session_new(runner_agent_fd(runner), true, &session);
	session_dead = r != 0;
	spec_done(&spec);
	return r;
}

static void op_wait(void)
{
	struct runner_end end = {0};
	double t = now_ms();

	runner_wait(runner, &end);
	emit(json_pack("{s:s, s:i, s:b, s:b, s:b, s:i, s:i, s:I, s:I, s:I, s:f}", "ev", "end", "rc", 0, "timed_out", end.timed_out, "killed", end.killed, "lost",
		       end.lost, "oom_kills", (int)end.oom_kills, "pids_denied", (int)end.pids_denied,
		       "memory_peak", (json_int_t)end.memory_peak, "cpu_us", (json_int_t)end.cpu_us,
		       "wall_us", (json_int_t)end.wall_us, "ms", now_ms() - t));
	session_free(session);
	session = NULL;
	runner_free(runner);
	runner = NULL;
	for (size_t i = 0; i < SLOTS; i++)
		slots[i].s = NULL;
}

static int open_fds(void)
{
	DIR *d = opendir("/proc/self/fd");
	int n = 0;

	if (!d)
		return -1;
	while (readdir(d))
		n++;
	(void)closedir(d);
	return n;
}

static long rss_kib(void)
{
	FILE *f = fopen("/proc/self/statm", "re");
	long size = 0, rss = -1;

	if (!f)
		return -1;
	if (fscanf(f, "%ld %ld", &size, &rss) != 2)
		rss = -1;
	(void)fclose(f);
	return rss * 4;
}

/* n sandboxes one after the other in this one process: what it holds before and after. */
static void op_soak(const json_t *o)
{
	json_int_t n = json_integer_value(json_object_get(o, "n"));
	int fds = 0;
	long rss = 0;

	for (json_int_t i = 0; i < n; i++) {
		struct err e = ERR_INIT;
		struct runner_end end = {0};
		int r = op_start(o, &e);

		if (r == 0) {
			runner_kill(runner);
			runner_wait(runner, &end);
		}
		session_free(session);
		session = NULL;
		runner_free(runner);
		runner = NULL;
		if (r < 0) {
			emit_rc("soak", i, r, &e, now_ms());
			return;
		}
		if (i == MIN(20, n - 1)) {
			fds = open_fds();
			rss = rss_kib();
		}
	}
	emit(json_pack("{s:s, s:i, s:i, s:i, s:i, s:i, s:i}", "ev", "soak", "rc", 0, "fds", fds, "fds_after",
		       open_fds(), "rss", (int)rss, "rss_after", (int)rss_kib(), "n", (int)n));
}

static int nibble(char c)
{
	const char *at = c ? strchr("0123456789abcdef", c) : NULL;

	return at ? (int)(at - strchr("0123456789abcdef", '0')) : 0;
}

static void op_stream(const char *op, const json_t *o, struct slot *t)
{
	const char *s = json_string_value(json_object_get(o, "hex"));

	if (!t->s)
		return;
	if (!strcmp(op, "write")) {
		for (; s && s[0] && s[1]; s += 2) {
			uint8_t c = (uint8_t)(nibble(s[0]) * 16 + nibble(s[1]));

			if (buf_put(&t->held, &c, 1) < 0)
				break;
		}
		push(t);
	} else if (!strcmp(op, "fill")) {
		t->fill = (uint64_t)json_integer_value(json_object_get(o, "n"));
		t->fill_eof = true;
		push(t);
	} else if (!strcmp(op, "eof")) {
		t->fill_eof = true;
		push(t);
	} else if (!strcmp(op, "reset")) {
		stream_reset(t->s);
	} else if (!strcmp(op, "stall")) {
		t->stalled = true;
	} else if (!strcmp(op, "resume")) {
		t->stalled = false;
		stream_resume(t->s, CHAN_OUT);
		if (t->s)
			stream_resume(t->s, CHAN_ERR);
	} else if (!strcmp(op, "signal")) {
		stream_signal(t->s, (int)json_integer_value(json_object_get(o, "sig")));
	} else if (!strcmp(op, "resize")) {
		stream_resize(t->s, (uint16_t)json_integer_value(json_object_get(o, "rows")),
			      (uint16_t)json_integer_value(json_object_get(o, "cols")));
	}
}

static void command(const json_t *o)
{
	const char *op = json_string_value(json_object_get(o, "op"));
	json_int_t id = json_integer_value(json_object_get(o, "id"));
	struct err e = ERR_INIT;
	double t0 = now_ms();
	uint32_t n = 0;
	int r = 0;

	if (!op || id < 0 || id >= SLOTS)
		return;
	if (!strcmp(op, "start")) {
		r = op_start(o, &e);
		emit_rc("start", 0, r, &e, t0);
	} else if (!strcmp(op, "sweep")) {
		emit_rc("sweep", 0, runner_sweep(), &e, t0);
	} else if (!strcmp(op, "soak")) {
		op_soak(o);
	} else if (!runner) {
		emit(json_pack("{s:s, s:s}", "ev", "error", "text", "no sandbox"));
	} else if (!strcmp(op, "open")) {
		struct slot *t = &slots[id];

		buf_done(&t->held);
		*t = (struct slot){.used = true, .count_only = json_is_true(json_object_get(o, "count"))};
		buf_init(&t->held, LINE_MAX_BYTES);
		r = open_stream(o, (int)id, t, &e);
		emit_rc("open", id, r, &e, t0);
	} else if (!strcmp(op, "leaf_kill")) {
		r = runner_leaf_kill(runner, (uint32_t)id, &e);
		emit_rc("leaf_kill", id, r, &e, t0);
	} else if (!strcmp(op, "oom")) {
		r = runner_oom_count(runner, &n, &e);
		emit_rc("oom", (int64_t)n, r, &e, t0);
	} else if (!strcmp(op, "kill")) {
		runner_kill(runner);
	} else if (!strcmp(op, "wait")) {
		op_wait();
	} else {
		op_stream(op, o, &slots[id]);
	}
}

/* Take whole lines off the input. False at the end of stdin. */
static bool read_commands(struct buf *in)
{
	uint8_t *at = buf_reserve(in, 65536);
	ssize_t n = at ? read(0, at, 65536) : -1;

	if (n <= 0)
		return n < 0 && (errno == EAGAIN || errno == EINTR);
	buf_commit(in, (size_t)n);
	for (;;) {
		const uint8_t *nl = in->len ? memchr(buf_head(in), '\n', in->len) : NULL;
		size_t len;
		json_t *o;

		if (!nl)
			return true;
		len = (size_t)(nl - buf_head(in));
		o = json_loadb((const char *)buf_head(in), len, 0, NULL);
		buf_consume(in, len + 1);
		if (o)
			command(o);
		else
			emit(json_pack("{s:s, s:s}", "ev", "error", "text", "not a JSON line"));
		json_decref(o);
	}
}

int main(void)
{
	struct buf in;
	enum runner_state state = RUNNER_STARTING;

	buf_init(&in, LINE_MAX_BYTES);
	memset(fill_bytes, 'A', sizeof(fill_bytes));
	(void)sigaction(SIGPIPE, &(struct sigaction){.sa_handler = SIG_IGN}, NULL);
	for (;;) {
		struct pollfd p[3] = {{.fd = 0, .events = POLLIN}, {.fd = -1}, {.fd = -1}};

		if (session && !session_dead)
			p[1] = (struct pollfd){.fd = runner_agent_fd(runner),
					       .events = session_events(session)};
		if (runner && state != RUNNER_ENDED)
			p[2] = (struct pollfd){.fd = runner_event_fd(runner), .events = POLLIN};
		if (poll(p, 3, -1) < 0 && errno != EINTR)
			break;
		if (p[1].revents) {
			struct err e = ERR_INIT;
			int r = session_io(session, p[1].revents, &e);

			if (r < 0) {
				session_dead = true;
				emit_rc("session_end", 0, r, &e, now_ms());
			}
		}
		if (p[2].revents) {
			enum runner_state s = runner_handle(runner);

			if (s != state)
				emit(json_pack("{s:s, s:i}", "ev", "state", "state", (int)s));
			state = s;
		}
		if (p[0].revents) {
			struct runner *before = runner;

			if (!read_commands(&in))
				break;
			if (runner != before)
				state = RUNNER_STARTING;
		}
	}
	session_free(session);
	runner_free(runner);
	buf_done(&in);
	return 0;
}
