#include "guest/init.h"

#include "base/cleanup.h"
#include "guest/launch.h"
#include "guest/loop.h"
#include "guest/probe.h"
#include "guest/sudo.h"
#include "guest/user.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

/*
 * PID 1's start and end. Started by the tier, with everything around it in place: namespaces, root,
 * capabilities, limits, the agent's own filter. Arguments come from the tier and are trusted; frames and
 * everything inside the sandbox are not.
 *
 * The end is always the same: every other process is killed and PID 1 exits, upon which the kernel
 * removes the pid namespace. A host that is gone is seen as end of file on the stream; the
 * parent-death signal is a second line, and in a new pid namespace a parent that died before it
 * was set shows as that end of file.
 */

enum { EXIT_USAGE = 125 };
enum measure { MEASURE_NOTHING, MEASURE_WALLS, MEASURE_NET };
#define NOBODY ((uid_t)-1) /* no id */

static bool get_fd(const char *s, int *ret)
{
	char *end;
	long v = strtol(s, &end, 10);

	if (end == s || *end != '\0' || v < 3 || v > 1 << 20 || fcntl((int)v, F_SETFD, FD_CLOEXEC) < 0)
		return false;
	*ret = (int)v;
	return true;
}

static bool get_uid(const char *s, uid_t *ret)
{
	char *end;
	unsigned long v = strtoul(s, &end, 10);

	if (s[0] < '0' || s[0] > '9' || *end != '\0' || v > UINT32_MAX - 1)
		return false;
	*ret = (uid_t)v;
	return true;
}

static bool parse_arg(struct agent *a, const char *arg, int *stream, enum measure *measure)
{
	if (strncmp(arg, "stream=", 7) == 0)
		return get_fd(arg + 7, stream);
	if (strncmp(arg, "leaf=", 5) == 0)
		return get_fd(arg + 5, &a->leaf_fd);
	if (strncmp(arg, "user=", 5) == 0 && arg[5] != '\0' && strlen(arg + 5) < USER_STR_MAX) {
		a->rules.user = arg + 5;
		return true;
	}
	if (strncmp(arg, "sudo=", 5) == 0)
		return get_uid(arg + 5, &a->sudo.uid);
	if (strcmp(arg, "rootcaps=files") == 0 || strcmp(arg, "rootcaps=none") == 0) {
		a->rules.root_keeps_files = arg[9] == 'f';
		return true;
	}
	if (strcmp(arg, "measure=walls") == 0 || strcmp(arg, "measure=net") == 0) {
		*measure = arg[8] == 'n' ? MEASURE_NET : MEASURE_WALLS;
		return true;
	}
	return false;
}

/* Descriptors 0 to 2 must be taken, so that nothing opened later lands there. */
static bool open_null(struct agent *a)
{
	int fd;

	do
		fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	while (fd >= 0 && fd < 3);
	a->null_fd = fd;
	return fd >= 0;
}

/* Before the agent becomes non-dumpable: afterwards the file belongs to a root that may not be mapped. */
static void open_oom_score(struct agent *a)
{
	ssize_t n;

	a->oom_fd = open("/proc/self/oom_score_adj", O_RDWR | O_CLOEXEC);
	if (a->oom_fd < 0)
		return;
	n = read(a->oom_fd, a->oom_score, sizeof(a->oom_score) - 1);
	if (n > 0)
		a->oom_score[n] = '\0';
	if (n <= 0 || strtol(a->oom_score, NULL, 10) >= 200)
		(void)close(steal_fd(&a->oom_fd)); /* children would not be raised by it */
}

static void raise_nofile(struct agent *a)
{
	struct rlimit all;

	if (getrlimit(RLIMIT_NOFILE, &a->rules.nofile) < 0)
		return;
	all = a->rules.nofile;
	all.rlim_cur = all.rlim_max;
	(void)setrlimit(RLIMIT_NOFILE, &all);
}

static bool set_signals(int *ret_fd)
{
	static const uint64_t dfl[4]; /* the kernel's struct sigaction: SIG_DFL, no flags, no mask */
	sigset_t chld;

	/* What the caller ignores, as a shell's background job does, is ignored across execve(2). By plain
	 * calls: the C library keeps some real-time signals to itself. */
	for (int sig = 1; sig <= 64; sig++)
		(void)syscall(SYS_rt_sigaction, sig, &dfl, NULL, 8);
	(void)sigaction(SIGPIPE, &(struct sigaction){.sa_handler = SIG_IGN}, NULL);
	sigemptyset(&chld);
	sigaddset(&chld, SIGCHLD);
	if (sigprocmask(SIG_SETMASK, &chld, NULL) < 0)
		return false;
	*ret_fd = signalfd(-1, &chld, SFD_CLOEXEC | SFD_NONBLOCK);
	return *ret_fd >= 0;
}

static bool set_process(void)
{
	(void)setsid();
	return prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) == 0 && prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0 &&
	       prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0;
}

int init_main(int argc, char **argv)
{
	static struct agent a = {.ops = &launch_ops,
				 .leaf_fd = -1,
				 .spent_leaf_fd = -1,
				 .null_fd = -1,
				 .oom_fd = -1,
				 .sudo = {.listen_fd = -1, .uid = NOBODY}};
	enum measure measure = MEASURE_NOTHING;
	int stream = -1, sig_fd = -1, r;
	uint8_t hello[HELLO_LEN];

	a.rules.user = "root";
	for (int i = 1; i < argc; i++) {
		if (!parse_arg(&a, argv[i], &stream, &measure))
			return EXIT_USAGE;
	}
	/* kill(-1) is how everything ends here: never where that means the user's own processes */
	if (stream < 0 || getpid() != 1)
		return EXIT_USAGE;
	open_oom_score(&a);
	if (!set_process() || !open_null(&a) || !set_signals(&sig_fd))
		return EXIT_USAGE;
	if (a.sudo.uid != NOBODY && sudo_listen(&a.sudo) < 0)
		return EXIT_USAGE;
	raise_nofile(&a);
	peer_init(&a.peer, stream);
	hello_encode(hello, HELLO_FD_PASS);
	peer_send(&a.peer, FRAME_HELLO, 0, 0, hello, sizeof(hello));
	if (measure != MEASURE_NOTHING)
		probe_init(measure == MEASURE_NET);
	r = loop_run(&a, sig_fd);
	launch_kill_all(SIGKILL);
	return r == 0 ? 0 : 1;
}
