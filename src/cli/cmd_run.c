/*
 * `brig run`: one command in a fresh sandbox, from the words on the command line to the exit code.
 * Everything is checked before anything starts; what is wrong is one line on stderr and exit 125.
 */
#include "base/cleanup.h"
#include "base/num.h"
#include "base/quote.h"
#include "cmd/command.h"
#include "cli/launch.h"
#include "cli/launch_receipt.h"
#include "cli/run_args.h"
#include "cli/run_files.h"
#include "cli/run_patch.h"
#include "cli/run_report.h"
#include "cmd/say.h"
#include "cli/script.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CAPTURE_MAX = 16 * 1024 * 1024 };

/* A run between parsing and its report. */
struct plan {
	struct run_args *args;
	struct script script;
	char **argv; /* owned list of borrowed words */
	struct run_files files;
	struct launch_receipt *receipt; /* --receipt; NULL = none */
	int result_fd; /* --result-file; owned, -1 = none */
	int egress_fd; /* --egress-log; owned, -1 = none */
};

/* The kernel hands out 0, 1 and 2 first: closed ones would be taken by our own descriptors. */
static int fill_standard_fds(struct err *e)
{
	for (int fd = 0; fd <= 2; fd++) {
		if (fcntl(fd, F_GETFD) >= 0)
			continue;
		if (open("/dev/null", O_RDWR) != fd)
			return err_set(e, ERR_INTERNAL, errno, "/dev/null: %s", strerror(errno));
	}
	return 0;
}

static int open_result(struct plan *p, struct err *e)
{
	const char *to = p->args->one[RUN_RESULT_FILE];
	char q[QUOTE_MAX], *end;
	long fd;

	if (to == NULL)
		return 0;
	if (strncmp(to, "fd:", 3) != 0) {
		p->result_fd = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOCTTY, 0644);
		if (p->result_fd < 0)
			return err_set(e, ERR_INVALID, errno, "--result-file %s: %s", quote(to, q),
				       strerror(errno));
		return 0;
	}
	errno = 0;
	fd = strtol(to + 3, &end, 10);
	if (errno != 0 || end == to + 3 || *end != '\0' || fd < 0 || fd > 1048576)
		return err_set(e, ERR_INVALID, EINVAL, "--result-file %s: fd:N is needed",
			       quote(to, q));
	p->result_fd = fcntl((int)fd, F_DUPFD_CLOEXEC, 3);
	if (p->result_fd < 0)
		return err_set(e, ERR_INVALID, errno, "--result-file %s: %s", quote(to, q),
			       strerror(errno));
	return 0;
}

static int open_egress_log(struct plan *p, struct err *e)
{
	const char *to = p->args->one[RUN_EGRESS_LOG];
	char q[QUOTE_MAX];

	if (to == NULL)
		return 0;
	p->egress_fd = open(to, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY, 0600);
	return p->egress_fd >= 0 ? 0
				 : err_set(e, ERR_INVALID, errno, "--egress-log %s: %s", quote(to, q),
					   strerror(errno));
}

/* The command inside: the words as they are, or an interpreter and the copied script. */
static int make_argv(struct plan *p, bool is_script, struct err *e)
{
	char *const *from = p->args->command;
	size_t n = 0, at = 0;

	while (from[n] != NULL)
		n++;
	p->argv = calloc(n + 3, sizeof(*p->argv));
	if (p->argv == NULL)
		return err_no_memory(e);
	if (is_script) {
		if (p->script.interpreter[0] != '\0')
			p->argv[at++] = p->script.interpreter;
		if (p->script.arg[0] != '\0')
			p->argv[at++] = p->script.arg;
		p->argv[at++] = p->script.inside;
		from++;
	}
	while (*from != NULL)
		p->argv[at++] = *from++;
	return 0;
}

static bool env_has(const struct strv *env, const char *name)
{
	size_t n = strlen(name);

	for (uint32_t i = 0; i < env->n; i++)
		if (strncmp(env->v[i], name, n) == 0 && env->v[i][n] == '=')
			return true;
	return false;
}

static int put_term(struct strv *env, struct err *e)
{
	const char *term = getenv("TERM");
	char kv[80];

	(void)snprintf(kv, sizeof(kv), "TERM=%.64s", term != NULL ? term : "xterm");
	return env_put(env, kv) < 0 ? err_no_memory(e) : 0;
}

static int make_plan(struct plan *p, struct err *e)
{
	struct run_args *a = p->args;
	int script = 0, r = fill_standard_fds(e);

	if (r == 0)
		r = open_result(p, e);
	if (r == 0 && a->on[RUN_TTY] && isatty(STDIN_FILENO) == 0)
		r = err_set(
		    e, ERR_INVALID, ENOTTY,
		    "--tty: standard input is no terminal; leave -t out for a pipe or file");
	if (r == 0)
		r = run_args_load(a, e);
	if (r == 0)
		r = open_egress_log(p, e);
	if (r == 0 && a->on[RUN_TTY] && !env_has(&a->spec.env, "TERM") &&
	    !env_has(&a->secrets, "TERM"))
		r = put_term(&a->spec.env, e);
	if (r == 0 && !a->literal)
		r = script = script_detect(a->command[0], &p->script, e);
	if (r >= 0)
		r = make_argv(p, script > 0, e);
	if (r == 0)
		r = run_files_plan(a, script > 0 ? &p->script : NULL, &p->files, e);
	a->spec.measure = a->one[RUN_RECEIPT] != NULL;
	if (r == 0 && a->spec.measure) /* last: nothing after it fails without freeing it */
		r = launch_receipt_new(a->one[RUN_RECEIPT], &p->receipt, e);
	return r;
}

/* Whoever asked for a result and did not get it must not read success from the exit code. */
static void report(const struct plan *p, struct run_outcome *o)
{
	int r = 0;

	outcome_say(o);
	if (p->args->on[RUN_JSON])
		r = outcome_json(o, true, STDOUT_FILENO);
	if (r == 0 && p->result_fd >= 0)
		r = outcome_json(o, false, p->result_fd);
	if (r < 0)
		say("writing the result: %s", strerror(-r));
	if (r < 0 && o->code == 0)
		o->code = EXIT_FAULT;
}

/* False when nothing is to be given back: the process ends next. */
static bool start(struct plan *p, struct run_outcome *o)
{
	struct run_args *a = p->args;
	const char *stdio = getenv("BRIG_STDIO");
	static struct egress_log log; /* untouched where no gate is asked for */
	struct launch l = {
	    .spec = &a->spec,
	    .argv = p->argv,
	    .secrets = &a->secrets,
	    .tty = a->on[RUN_TTY],
	    .interactive = a->on[RUN_INTERACTIVE],
	    .exact = a->on[RUN_JSON] || a->on[RUN_VERBOSE] || p->result_fd >= 0,
	    .leaving = p->files.list == NULL,
	    .alerts = !a->on[RUN_QUIET],
	    .progress = !a->on[RUN_QUIET] && isatty(STDERR_FILENO) == 1,
	    .framed = stdio != NULL && strcmp(stdio, "framed") == 0,
	    .files = p->files.list,
	    .receipt = p->receipt,
	    .egress = a->spec.egress != NULL ? &log : NULL,
	};
	bool capture = a->on[RUN_JSON];
	int r;

	for (int i = 0; i < 2; i++)
		outlet_init(&l.out[i], capture ? -1 : STDOUT_FILENO + i, capture ? CAPTURE_MAX : 0);
	o->launch = &l;
	if (l.egress != NULL)
		egress_log_init(&log, p->egress_fd);
	r = launch_run(&l, &o->fault);
	launch_receipt_free(p->receipt, l.leaving);
	if (r == 0 && p->files.patch_n > 0 && l.have_result && l.result.how != HOW_ERROR &&
	    l.copy_fault.kind == ERR_NONE)
		r = run_patch(a, &p->files, &l.copy_fault);
	if (r < 0 && o->fault.kind == ERR_NONE && l.copy_fault.kind == ERR_NONE)
		(void)err_set(&o->fault, ERR_INTERNAL, -r, "%s", strerror(-r));
	outcome_decide(o);
	report(p, o);
	o->launch = NULL;
	if (l.leaving)
		return false;
	if (l.egress != NULL)
		egress_log_done(&log);
	for (int i = 0; i < 2; i++)
		outlet_done(&l.out[i]);
	return true;
}

static int run_run(int argc, char **argv)
{
	struct run_args a;
	struct plan p = {.args = &a, .result_fd = -1, .egress_fd = -1};
	struct run_outcome o = {.args = &a, .fault = ERR_INIT, .code = EXIT_FAULT};

	(void)argc;
	if (run_args_parse(argv, &a, &o.fault) < 0) {
		run_args_done(&a);
		return say_usage("run", &o.fault);
	}
	if (make_plan(&p, &o.fault) < 0) {
		outcome_decide(&o);
		report(&p, &o);
	} else if (!start(&p, &o)) {
		return o.code;
	}
	if (p.result_fd >= 0)
		(void)close(p.result_fd);
	if (p.egress_fd >= 0)
		(void)close(p.egress_fd);
	run_files_done(&p.files);
	free(p.argv);
	run_args_done(&a);
	return o.code;
}

const struct command_impl command_run = {
    .run = run_run,
    .opts = run_opts,
    .nopts = ARRAY_LEN(run_opts),
    .notes = "Without --, a COMMAND that is a script or program file here (hello.py, ./a.out) is\n"
	     "copied to /workspace and run with its interpreter; after -- it is a command inside.\n"
	     "The sandbox reaches nothing that --allow does not name, sees none of your files, and\n"
	     "is gone at the end.\n\n"
	     "Exit: the command's own code; 124 time limit, 125 brig could not do it, 126 not\n"
	     "executable, 127 not found, 128+N ended by signal N. Ctrl-C is passed on; twice\n"
	     "within two seconds ends the sandbox.\n\n"
	     "  brig run hello.py\n"
	     "  brig run --timeout 10s --memory 256M -- python3 -c 'print(6 * 7)'\n"
	     "  brig run --file src:src --out src/build:build -w /workspace/src -- make\n"
	     "  echo data | brig run -i -- sort\n"
	     "  brig run --allow api.github.com:443 -- curl https://api.github.com/zen\n",
};
