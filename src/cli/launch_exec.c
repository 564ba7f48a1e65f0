#include "cli/launch_priv.h"
/*
 * The command's request and its standard streams. By default brig makes pipes and passes their far ends with the
 * EXEC request: output then costs no agent and no frame. A terminal, and `framed`, use the stream's channels. When
 * the command has ended, exactly what its pipes hold at that moment is still delivered; a background process that
 * keeps them open delays nothing.
 */
#include "cmd/tty.h"
#include "wire/frame.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static ssize_t on_data(void *arg, struct stream *s, uint8_t chan, const void *p, size_t n)
{
	struct launch_run *r = (struct launch_run *)arg;

	(void)s;
	if (r->phase == PHASE_RECEIPT)
		launch_on_report(r);
	if (r->phase == PHASE_RECEIPT)
		return (ssize_t)n; /* nothing runs that could say it */
	return (ssize_t)outlet_take(&r->l->out[chan == CHAN_ERR], p, n);
}

/* The report, should there be one, is there already, as a rule: the process sends it before this. */
static void on_started(void *arg, struct stream *s, uint32_t pid)
{
	struct launch_run *r = (struct launch_run *)arg;

	(void)s;
	(void)pid;
	r->started = true;
	if (r->phase == PHASE_RECEIPT)
		launch_on_report(r);
}

static void on_writable(void *arg, struct stream *s)
{
	struct launch_run *r = (struct launch_run *)arg;

	(void)s;
	inlet_pump(&r->in);
}

static void on_broken(void *arg, struct stream *s, int err)
{
	struct launch_run *r = (struct launch_run *)arg;

	(void)s;
	(void)err;
	inlet_stop(&r->in);
}

static void on_result(void *arg, struct stream *s, const struct stream_result *res)
{
	struct launch_run *r = (struct launch_run *)arg;

	(void)s;
	r->exec = NULL;
	r->l->have_result = true;
	r->l->result = *res;
}

static const struct stream_ops exec_ops = {
    .data = on_data,
    .started = on_started,
    .writable = on_writable,
    .broken = on_broken,
    .result = on_result,
};

static void put_exec(struct msg_writer *w, const struct launch *l)
{
	const struct spec *s = l->spec;
	uint64_t flags = REQ_SOLE;

	if (l->tty)
		flags |= REQ_TTY;
	if (l->interactive)
		flags |= REQ_STDIN;
	if (!l->tty && !l->framed)
		flags |= REQ_FD_STDIO;
	if (l->receipt != NULL)
		flags |= REQ_FD_MEASURE;
	msg_u64(w, F_KIND, REQ_EXEC);
	msg_u64(w, F_FLAGS, flags);
	for (uint32_t i = 0; l->argv[i] != NULL; i++)
		msg_str(w, F_ARG, l->argv[i]);
	for (uint32_t i = 0; i < s->env.n; i++)
		msg_str(w, F_ENV, s->env.v[i]);
	for (uint32_t i = 0; l->secrets != NULL && i < l->secrets->n; i++)
		msg_str(w, F_ENV, l->secrets->v[i]);
	msg_str(w, F_CWD, s->workdir != NULL ? s->workdir : "/workspace");
	if (s->user != NULL)
		msg_str(w, F_USER, s->user);
	if (l->receipt != NULL)
		msg_bytes(w, F_EXPECT, launch_receipt_expect(l->receipt), sizeof(struct probe_expect));
	if (l->tty) {
		uint16_t rows, cols;

		tty_size(STDIN_FILENO, &rows, &cols);
		msg_u64(w, F_ROWS, rows);
		msg_u64(w, F_COLS, cols);
	}
}

/* A pipe that any user of the sandbox may open again by /dev/stdout and the like; nobody else can
 * reach it. */
static int make_pipe(int p[2], struct err *e)
{
	if (pipe2(p, O_CLOEXEC) < 0)
		return err_set(e, ERR_INTERNAL, errno, "a pipe: %s", strerror(errno));
	(void)fchmod(p[0], 0666);
	return 0;
}

/* Open the pipes: ours go to inlet and outlets, far[] are the sandbox's. Returns their number. */
static int make_pipes(struct launch_run *r, int far[3], struct err *e)
{
	int n = 0, p[2];

	if (r->l->interactive) {
		int err = make_pipe(p, e);

		if (err < 0)
			return err;
		far[n++] = p[0];
		inlet_to_pipe(&r->in, STDIN_FILENO, p[1]);
	}
	for (int i = 0; i < 2; i++) {
		int err = make_pipe(p, e);

		if (err < 0) {
			while (n > 0)
				(void)close(far[--n]);
			return err;
		}
		r->l->out[i].src_fd = p[0];
		far[n++] = p[1];
	}
	return n;
}

int launch_open_exec(struct launch_run *r, struct err *e)
{
	struct launch *l = r->l;
	struct msg_writer w = {NULL, 0};
	struct buf req;
	int far[5], n = 0, ret;

	buf_init(&req, FRAME_OPEN_MAX);
	w.b = &req;
	put_exec(&w, l);
	if (w.err != 0)
		ret = err_set(e, ERR_LIMITED, E2BIG,
			      "Argument list too long: one argument or variable may have 131071 "
			      "bytes, all together 4 MiB");
	else
		ret = l->tty || l->framed ? 0 : make_pipes(r, far, e);
	if (ret >= 0) {
		n = ret;
		ret = l->receipt != NULL ? launch_receipt_open(l->receipt, far + n, e) : 0;
	}
	if (ret == 0) {
		n += l->receipt != NULL ? 2 : 0;
		ret = session_open(r->session, &req, far, (uint32_t)n, &exec_ops, r, &r->exec, e);
	}
	while (n > 0)
		(void)close(far[--n]);
	if (req.data != NULL)
		explicit_bzero(req.data, req.cap); /* secrets */
	buf_done(&req);
	if (ret == 0 && (l->tty || l->framed) && l->interactive)
		inlet_to_stream(&r->in, STDIN_FILENO, r->exec);
	return ret;
}
