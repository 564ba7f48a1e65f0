#include "cli/launch_priv.h"
/*
 * Signals come by signalfd, and are blocked from before the sandbox has a record until it is gone or has a
 * runner: one that ended brig in between would leave cgroups and record to the next brig. What is started
 * sets a mask of its own.
 */
#include "base/num.h"
#include "cmd/tty.h"
#include "sys/loop.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

enum { SECOND_INT_MS = 2000 }; /* a second Ctrl-C within this kills */

static void forward(struct launch_run *r, int sig)
{
	uint64_t now;

	if (r->phase != PHASE_EXEC || r->exec == NULL) {
		launch_stop_by(r, sig);
		r->drain_until_ms = 1; /* whoever gives signals now wants to leave */
		return;
	}
	if (sig == SIGINT) {
		now = loop_clock_ms();
		if (r->last_int_ms != 0 && now - r->last_int_ms <= SECOND_INT_MS) {
			launch_stop_by(r, sig);
			return;
		}
		r->last_int_ms = now;
	}
	stream_signal(r->exec, sig);
}

void launch_on_signals(struct launch_run *r)
{
	struct signalfd_siginfo si;

	while (read(r->signal_fd, &si, sizeof(si)) == (ssize_t)sizeof(si)) {
		if (si.ssi_signo == SIGWINCH) {
			uint16_t rows, cols;

			if (!r->l->tty || r->exec == NULL)
				continue;
			tty_size(STDIN_FILENO, &rows, &cols);
			stream_resize(r->exec, rows, cols);
		} else {
			forward(r, (int)si.ssi_signo);
		}
	}
}

int launch_open_signals(struct launch_run *r, struct err *e)
{
	static const int ends[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
	struct sigaction sa;
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGWINCH);
	/* a signalfd gets ignored signals too, but nohup(1) and a shell's `&` mean what they say */
	for (size_t i = 0; i < ARRAY_LEN(ends); i++)
		if (sigaction(ends[i], NULL, &sa) < 0 || sa.sa_handler != SIG_IGN)
			sigaddset(&set, ends[i]);
	r->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (r->signal_fd < 0)
		return err_set(e, ERR_INTERNAL, errno, "signalfd: %s", strerror(errno));
	sigaddset(&set, SIGPIPE); /* a closed reader is seen by EPIPE */
	(void)sigprocmask(SIG_BLOCK, &set, &r->old_mask);
	r->masked = true;
	return 0;
}

/* A SIGPIPE that a closed reader left pending must not strike when the mask is lifted. */
void launch_close_signals(struct launch_run *r)
{
	static const struct timespec now = {0, 0};
	sigset_t set;

	if (!r->masked)
		return;
	r->masked = false;
	sigemptyset(&set);
	sigaddset(&set, SIGPIPE);
	(void)sigtimedwait(&set, NULL, &now);
	(void)sigprocmask(SIG_SETMASK, &r->old_mask, NULL);
}
