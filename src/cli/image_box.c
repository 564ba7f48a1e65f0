#include "cli/image_box.h"
/*
 * The sandbox is run by a fork of brig: launch_run is a loop of its own, and so is the intake of the stream.
 * The fork ends with its parent (parent-death signal, which ends the sandbox as any signal does), writes the
 * notes into a memfd, and says by its exit code which of the ends it was.
 */
#include "base/cleanup.h"
#include "base/quote.h"
#include "base/units.h"
#include "cli/cmd_image.h"
#include "cli/image_words.h"
#include "cli/launch.h"
#include "cmd/say.h"
#include "sys/file.h"
#include "sys/ids.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/sysinfo.h>
#include <sys/wait.h>
#include <unistd.h>

enum end_code { END_OK, END_TOOL, END_FAULT, END_TIMEOUT, END_MEMORY };
enum { HOUR_MS = 3600 * 1000, ENTRIES_MAX = 4000000, PIDS = 4096, SLACK = 512 << 20, IMAGE_ENTRIES_LIMIT = 100000000 };

int image_box_limit(struct image_box_limits *l, const char *option, const char *value, struct err *e)
{
	char q[QUOTE_MAX];
	int r;

	if (strcmp(option, "timeout") == 0)
		r = units_duration(value, &l->timeout_ms, e);
	else if (strcmp(option, "memory") == 0)
		r = units_size(value, &l->memory, e);
	else if (strcmp(option, "disk") == 0)
		r = units_size(value, &l->disk, e);
	else if (strcmp(option, "max-size") == 0)
		r = units_size(value, &l->image.bytes, e);
	else if (strcmp(option, "max-entries") == 0)
		r = units_count(value, IMAGE_ENTRIES_LIMIT, &l->image.entries, e);
	else
		return 0;
	return r < 0 ? err_wrap(e, r, "--%s %s", option, quote(value, q)) : 1;
}

int image_box_need(const char *tools, struct err *e)
{
	char path[128], program[64], package[64];
	int used;

	for (; sscanf(tools, " %63[^:]:%63s%n", program, package, &used) == 2; tools += used) {
		(void)snprintf(path, sizeof(path), "/usr/bin/%s", program);
		if (access(path, X_OK) < 0)
			return err_set(e, ERR_NOT_FOUND, ENOENT, "%s is needed: apt-get install %s", program, package);
	}
	return 0;
}

bool image_box_owners(void) { return ids_host_root(); }

static int fill_spec(const struct image_box *b, struct spec *s, struct err *e)
{
	struct sysinfo si;
	uint64_t ram;

	if (sysinfo(&si) < 0)
		return err_set(e, ERR_INTERNAL, errno, "sysinfo: %s", strerror(errno));
	ram = (uint64_t)si.totalram * si.mem_unit;
	spec_init(s);
	spec_new_id(s);
	s->disk = b->lim.disk != 0 ? b->lim.disk : ram / 2;
	s->memory = b->lim.memory != 0 ? b->lim.memory : ram / 4 * 3;
	if (b->lim.disk != 0 && b->lim.memory == 0 && s->memory < s->disk + SLACK)
		s->memory = s->disk + SLACK;
	if (b->lim.disk == 0)
		spec_fit_disk(s);
	s->timeout_ms = b->lim.timeout_ms != 0 ? b->lim.timeout_ms : HOUR_MS;
	s->inodes = ENTRIES_MAX;
	s->pids = PIDS;
	s->tier = strdup("container");
	s->image = strdup("host");
	s->workdir = strdup("/tmp");
	if ((image_box_owners() && !b->plain_user) || b->as_root) {
		s->root = ROOT_OVERLAY;
		s->root_caps = ROOT_CAPS_FILES;
		s->image_user = strdup("0"); /* also where there is one id only */
		if (s->image_user == NULL)
			return err_no_memory(e);
	}
	if (b->see != NULL && (s->see = strdup(b->see)) == NULL)
		return err_no_memory(e);
	if (b->see != NULL && image_box_owners())
		s->require |= REQ_NEED_IDMAP; /* else every file would seem to be nobody's */
	for (uint32_t i = 0; b->hosts != NULL && i < b->hosts->n; i++)
		if (strv_add(&s->hosts, b->hosts->v[i]) < 0)
			return err_no_memory(e);
	s->egress_local = b->egress_local;
	if (b->egress != NULL)
		s->egress = strdup(b->egress);
	if (s->tier == NULL || s->image == NULL || s->workdir == NULL || (b->egress != NULL && s->egress == NULL) ||
	    strv_add(&s->env, "LC_ALL=C.UTF-8") < 0 || strv_add(&s->env, "HOME=/tmp") < 0 ||
	    strv_add(&s->env, "PATH=/usr/sbin:/usr/bin:/sbin:/bin") < 0)
		return err_no_memory(e);
	return spec_check(s, e);
}

static int fill_files(const struct image_box *b, const struct spec *s, struct launch_files **ret, struct err *e)
{
	const struct copy_in_opts o = {.max_bytes = s->disk, .max_entries = s->inodes};
	int r = launch_files_new(ret, e);

	for (size_t i = 0; r == 0 && i < IMAGE_BOX_COPIES && b->copy[i].from != NULL; i++) {
		struct copy_in *c = NULL;

		r = copy_in_new(b->copy[i].from, &o, &c, e);
		if (r == 0)
			r = launch_files_in_take(*ret, c, b->copy[i].inside, e);
	}
	return r;
}

static enum end_code run(const struct image_box *b, const struct spec *s, struct launch_files *files, int out,
			 int notes, struct err *e)
{
	char sh[] = "sh", dash_c[] = "-c", name[] = "image";
	char *argv[IMAGE_BOX_ARGS + 5] = {sh, dash_c, NULL, name};
	struct egress_log log;
	struct launch l = {.spec = s, .argv = argv, .exact = true, .progress = b->progress, .files = files};
	int r;

	argv[2] = strdup(b->script);
	for (size_t i = 0; i < IMAGE_BOX_ARGS && b->args[i] != NULL; i++)
		argv[i + 4] = strdup(b->args[i]);
	egress_log_init(&log, -1);
	l.egress = &log;
	outlet_init(&l.out[0], out, 0);
	outlet_init(&l.out[1], -1, IMAGE_BOX_NOTES_MAX);
	r = launch_run(&l, e);
	if (r < 0)
		return END_FAULT;
	r = file_write_all(notes, buf_head(&l.out[1].kept), l.out[1].kept.len);
	if (l.end.timed_out)
		return END_TIMEOUT;
	if (l.have_result && l.result.how == HOW_EXIT && l.result.code == 0 && r == 0)
		return END_OK;
	if (l.end.oom_kills > 0)
		return END_MEMORY;
	for (uint32_t i = 0; i < log.n; i++)
		dprintf(notes, "\nrefused by the gate: %s: %s\n", log.seen[i].where, log.seen[i].reason);
	if (!l.have_result)
		(void)err_set(e, ERR_LOST, EPIPE, l.stopped_by != 0 ? "stopped by a signal" : "the sandbox was lost");
	return l.have_result ? END_TOOL : END_FAULT;
}

/* In the fork: everything of it ends here. */
static _Noreturn void child(const struct image_box *b, const struct spec *s, struct launch_files *files, int out,
			    int notes, pid_t parent)
{
	struct err e = ERR_INIT;
	enum end_code code;

	if (prctl(PR_SET_PDEATHSIG, SIGTERM, 0, 0, 0) < 0 || getppid() != parent)
		_exit(END_FAULT);
	code = run(b, s, files, out, notes, &e);
	if (code == END_FAULT)
		(void)dprintf(notes, "\n%s\n", e.msg);
	_exit((int)code);
}

int image_box_start(struct image_box *b, struct err *e)
{
	struct launch_files *files = NULL;
	struct spec s = {.id = ""};
	pid_t parent = getpid();
	int p[2] = {-1, -1}, r;

	b->out_fd = b->notes_fd = -1;
	r = fill_spec(b, &s, e);
	if (r == 0)
		r = fill_files(b, &s, &files, e);
	if (r == 0 && (pipe2(p, O_CLOEXEC) < 0 || (b->notes_fd = memfd_create("notes", MFD_CLOEXEC)) < 0))
		r = err_set(e, ERR_INTERNAL, errno, "a pipe: %s", strerror(errno));
	if (r == 0) {
		b->pid = fork();
		if (b->pid == 0) {
			(void)close(p[0]);
			child(b, &s, files, p[1], b->notes_fd, parent);
		}
		if (b->pid < 0)
			r = err_set(e, ERR_INTERNAL, errno, "fork: %s", strerror(errno));
	}
	launch_files_free(files);
	spec_done(&s);
	if (p[1] >= 0)
		(void)close(p[1]);
	if (r == 0) {
		b->out_fd = p[0];
		return 0;
	}
	if (p[0] >= 0)
		(void)close(p[0]);
	if (b->notes_fd >= 0)
		(void)close(b->notes_fd);
	return r;
}

static char *read_notes(int fd, size_t *n)
{
	off_t size = lseek(fd, 0, SEEK_END);
	char *text = size < 0 || size > 2 * IMAGE_BOX_NOTES_MAX ? NULL : malloc((size_t)size + 1);
	ssize_t got = text == NULL ? -1 : pread(fd, text, (size_t)size, 0);

	*n = got < 0 ? 0 : (size_t)got;
	if (text != NULL)
		text[*n] = '\0';
	return text;
}

int image_box_end(struct image_box *b, char **notes, size_t *n, struct err *e)
{
	_cleanup_close_ int fd = b->notes_fd;
	_cleanup_free_ char *text = NULL;
	char line[IMAGE_WORDS_MAX];
	int status = 0;

	(void)close(b->out_fd);
	b->out_fd = b->notes_fd = -1;
	while (waitpid(b->pid, &status, 0) < 0 && errno == EINTR) {
	}
	text = read_notes(fd, n);
	if (text == NULL)
		return err_no_memory(e);
	switch (WIFEXITED(status) ? WEXITSTATUS(status) : (int)END_FAULT) {
	case END_OK:
		*notes = steal_ptr(&text);
		return 0;
	case END_TOOL:
		return err_set(e, ERR_INVALID, EINVAL, "%s", image_words(text, *n, line));
	case END_TIMEOUT:
		return err_set(e, ERR_LIMITED, ETIMEDOUT, "the tools took longer than --timeout allows");
	case END_MEMORY:
		return err_set(e, ERR_LIMITED, ENOMEM, "the tools needed more than --memory allows");
	default:
		return err_set(e, ERR_INTERNAL, EIO, "%s", image_words(text, *n, line));
	}
}

/* Until the first bytes come, a person sees that something happens. */
static void show_waiting(const struct image_box *b)
{
	struct pollfd p = {.fd = b->out_fd, .events = POLLIN};
	unsigned int seconds = 0;
	char line[96];

	do {
		(void)snprintf(line, sizeof(line), "%s: %u s", b->doing, seconds++);
		say_status(line, false);
	} while (poll(&p, 1, 1000) == 0);
}

int image_box_take(struct image_box *b, struct image_new **ret, char **notes, size_t *n, struct err *e)
{
	struct err tool = ERR_INIT;
	bool show = b->progress;
	int r = image_box_start(b, e), end;

	if (r < 0)
		return r;
	if (show && b->doing != NULL)
		show_waiting(b);
	r = image_take_in(b->out_fd, &b->lim.image, image_show_progress, &show, ret, e);
	end = image_box_end(b, notes, n, &tool);
	if (show)
		say_status(NULL, false);
	if (end < 0 && (r == 0 || r == -ENODATA)) {
		if (r == 0)
			image_new_free(*ret);
		*e = tool;
		return end;
	}
	if (r < 0 && end == 0) {
		free(*notes);
		*notes = NULL;
	}
	return r;
}
