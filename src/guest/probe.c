#include "guest/probe.h"

#include "sys/pages.h"
#include "sys/raw.h"

#include <errno.h>
#include <linux/futex.h>
#include <string.h>

/*
 * A report has two halves, PID 1's and that of the command's process, which borrows PID 1's memory or is a copy of it.
 * PID 1 measures what is its own when it starts, while the host gets the request ready, and the world while the
 * process that borrows its memory gets ready and measures itself; before a copy is made. Who of the two is done later
 * is not known: the process waits for PID 1.
 *
 * The report leaves the sandbox before the command is run, so that whatever runs there cannot touch it.
 *
 * The file of the host is opened for nothing but the errno.
 */

enum { INIT_TEXT_MAX = 32 * 1024, COMMAND_TEXT_MAX = 4096, USUAL_TEXT = 8192, USUAL_REPORT = 12 * 1024 };
#define SELF "/proc/self"

static struct probe report;
static struct probe_expect expect;
static struct probe_diffs diffs; /* not touched where there is none */
static bool of_itself, nets;
static enum { UNKNOWN, AWAITED, KNOWN } world;
static char init_text[INIT_TEXT_MAX];
static char command_text[COMMAND_TEXT_MAX] __attribute__((aligned(8)));

static struct probe_view view(char *text, size_t room)
{
	return (struct probe_view){.self_fd = raw_open(SELF, O_PATH | O_DIRECTORY), .text = text, .room = room};
}

void probe_init(bool try_net)
{
	struct probe_view v;

	pages_make(&report, USUAL_REPORT);
	pages_make(init_text, USUAL_TEXT);
	report.head = (struct probe_head){.magic = PROBE_MAGIC, .version = PROBE_VERSION};
	v = view(init_text, sizeof(init_text));
	probe_task(&report.init, &v);
	if (v.self_fd >= 0)
		raw_close(v.self_fd);
	of_itself = true;
	nets = try_net;
}

bool probe_prepare(const struct ask_str *asked, int outside_fd)
{
	if (!of_itself || probe_expect_read(asked->p, asked->n, &expect) < 0)
		return false;
	memset(&report.command, 0, sizeof(report.command));
	diffs.n = 0;
	report.init.outside = probe_outside(outside_fd);
	return true;
}

void probe_rest(void)
{
	struct probe_view v;

	if (__atomic_load_n(&world, __ATOMIC_ACQUIRE) == KNOWN)
		return;
	v = view(init_text, sizeof(init_text));
	probe_sandbox(&report, &v);
	probe_world(&report.world, nets);
	if (v.self_fd >= 0)
		raw_close(v.self_fd);
	if (__atomic_exchange_n(&world, KNOWN, __ATOMIC_ACQ_REL) == AWAITED)
		(void)raw_call(SYS_futex, (long)&world, FUTEX_WAKE, 1, 0, 0);
}

static void wait_for_rest(void)
{
	unsigned was = UNKNOWN;

	(void)__atomic_compare_exchange_n((unsigned *)&world, &was, AWAITED, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
	while (__atomic_load_n(&world, __ATOMIC_ACQUIRE) != KNOWN)
		(void)raw_call(SYS_futex, (long)&world, FUTEX_WAIT, AWAITED, 0, 0);
}

int probe_report(int sock_fd, int outside_fd)
{
	struct probe_view v = view(command_text, sizeof(command_text));
	long n;

	probe_command(&report.command, &v);
	if (v.self_fd >= 0)
		raw_close(v.self_fd);
	report.command.task.outside = probe_outside(outside_fd);
	wait_for_rest();
	probe_compare(&expect, &report, &diffs);
	report.head.differences = diffs.n;
	n = raw_send(sock_fd, &report, probe_size(&report));
	if (n != (long)probe_size(&report))
		return n < 0 ? (int)n : -EIO;
	return diffs.n == 0 && (expect.flags & EXPECT_STOP) == 0 ? 0 : -ECANCELED;
}
