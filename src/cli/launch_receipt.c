#include "cli/launch_receipt.h"
/*
 * A start with a receipt.
 *
 *      brig                                    the command's process
 *      opens the file, reads the key and
 *      what the host knows
 *      EXEC, what to expect of the    ------>  starts, and measures itself;
 *      walls, a socket, a host's file          PID 1 itself meanwhile
 *                                              compares; a difference ends it here
 *                                   <-------   the report
 *      compares; a difference ends             execve(2)
 *      the sandbox
 *      composes, signs, writes                 runs
 *
 * brig does what is not needed before while the command runs already. The report is hostile and goes through
 * probe_check before anything looks at it; a message larger than any report is none.
 */
#include "base/cleanup.h"
#include "base/num.h"
#include "base/quote.h"
#include "cli/run_report.h"
#include "cmd/say.h"
#include "core/state.h"
#include "receipt/receipt.h"
#include "sys/ids.h"
#include "sys/pages.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

enum { USUAL_REPORT = 12 * 1024 };

struct launch_receipt {
	const char *path;
	int fd; /* our end of the socket */
	struct receipt_file file;
	bool written;
	struct receipt_key key;
	struct receipt_host host;
	struct utsname uts;
	struct buf out;
	struct probe_expect expect;
	uint8_t seed[RECEIPT_SEED]; /* until the key is made of it */
	struct probe_diffs diffs;
	struct {
		struct probe probe;
		uint8_t more; /* shows a message that is too large */
	} message;
};

int launch_receipt_new(const char *path, struct launch_receipt **ret, struct err *e)
{
	struct launch_receipt *r = calloc(1, sizeof(*r));

	if (r == NULL)
		return err_no_memory(e);
	r->path = path;
	r->fd = r->file.fd = r->file.old_fd = -1;
	buf_init(&r->out, RECEIPT_MAX);
	*ret = r;
	return 0;
}

static void hang_up(struct launch_receipt *r)
{
	if (r->fd >= 0)
		(void)close(steal_fd(&r->fd));
}

void launch_receipt_free(struct launch_receipt *r, bool leaving)
{
	if (r == NULL)
		return;
	hang_up(r);
	receipt_file_done(&r->file);
	receipt_key_wipe(&r->key);
	explicit_bzero(r->seed, sizeof(r->seed));
	if (leaving)
		return;
	buf_done(&r->out);
	free(r);
}

/* The state folder, its folder for keys, and the key. */
static int make_seed(char folder[512], uint8_t ret[RECEIPT_SEED], struct err *e)
{
	int r = state_make_dir(folder, e);

	if (r < 0)
		return r;
	memcpy(folder + strlen(folder), "/keys", sizeof("/keys"));
	r = state_make_dir(folder, e);
	return r < 0 ? r : receipt_seed_load(folder, true, ret, e);
}

static int load_seed(bool make, uint8_t ret[RECEIPT_SEED], struct err *e)
{
	char folder[512];
	struct err missing = ERR_INIT;
	size_t n;
	int r = state_dir(folder, sizeof(folder) - sizeof("/keys"), e);

	if (r < 0)
		return r;
	n = strlen(folder);
	memcpy(folder + n, "/keys", sizeof("/keys"));
	r = receipt_seed_load(folder, false, ret, &missing);
	if (r == -ENOENT && make) {
		folder[n] = '\0';
		return make_seed(folder, ret, e);
	}
	if (r == -ENOENT)
		(void)err_set(e, ERR_NOT_FOUND, ENOENT,
			      "this machine has no signing key: name the signer's by --key");
	else if (r < 0)
		*e = missing;
	return r;
}

/* The seed is gone afterwards. */
static int make_key(uint8_t seed[RECEIPT_SEED], struct receipt_key *ret, struct err *e)
{
	int r = receipt_key_from_seed(seed, ret);

	explicit_bzero(seed, RECEIPT_SEED);
	return r < 0 ? err_set(e, ERR_INTERNAL, EIO, "libsodium cannot start") : 0;
}

int launch_receipt_key(bool make, uint8_t pub[32], struct err *e)
{
	uint8_t seed[RECEIPT_SEED];
	struct receipt_key k;
	int r = load_seed(make, seed, e);

	if (r < 0)
		return r;
	r = make_key(seed, &k, e);
	if (r == 0)
		memcpy(pub, k.pub, RECEIPT_PUB);
	receipt_key_wipe(&k);
	return r;
}

int launch_receipt_open(struct launch_receipt *r, int far[2], struct err *e)
{
	/* public and read-only: nothing is given away should Landlock be missing */
	int outside_fd = open("/proc/version", O_PATH | O_CLOEXEC), pair[2];

	if (outside_fd < 0)
		return err_set(e, ERR_INTERNAL, errno, "--receipt: /proc/version: %s",
			       strerror(errno));
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0) {
		(void)close(outside_fd);
		return err_set(e, ERR_INTERNAL, errno, "--receipt: a socket: %s", strerror(errno));
	}
	r->fd = pair[0];
	far[0] = pair[1];
	far[1] = outside_fd;
	return 0;
}

int launch_receipt_fd(const struct launch_receipt *r) { return r->fd; }

static void put_gaps(struct receipt_host *h, uint32_t weaker)
{
	for (uint32_t bit = 1; bit != 0 && h->gaps < RECEIPT_GAPS_MAX; bit <<= 1)
		if ((weaker & bit) != 0)
			h->gap[h->gaps++] = (struct receipt_gap){
			    outcome_wall_name(bit), runner_weaker_text((enum runner_weaker)bit)};
}

static struct receipt_limit limit_of(struct runner_limit l)
{
	return (struct receipt_limit){.known = l.known, .value = l.value};
}

static void own_namespaces(struct receipt_host *h)
{
	for (int i = 0; i < PROBE_NSS; i++) {
		char path[64];
		struct stat st;

		(void)snprintf(path, sizeof(path), "/proc/self/ns/%s", probe_ns_names[i]);
		h->ns[i] = stat(path, &st) == 0 ? st.st_ino : 0;
	}
}

static void fill_host(struct launch_receipt *r, const struct runner *runner,
		      const struct spec *spec, char *const *argv)
{
	struct receipt_host *h = &r->host;
	uint32_t weaker = runner_weaker(runner);
	struct runner_limits l;

	runner_limits(runner, &l);
	(void)uname(&r->uts);
	own_namespaces(h);
	h->spec = spec;
	h->digest = spec->image_digest;
	h->argv = argv;
	h->time = time(NULL);
	h->version = BRIG_VERSION;
	h->release = r->uts.release;
	h->machine = r->uts.machine;
	h->own_ids = ids_host_root();
	h->euid = geteuid();
	h->landlock = (weaker & WEAKER_LANDLOCK) == 0;
	h->pids_by_rlimit = (weaker & WEAKER_PIDS) != 0;
	h->memory = limit_of(l.memory);
	h->pids = limit_of(l.pids);
	h->cpu_milli = limit_of(l.cpu_milli);
	put_gaps(h, weaker);
}

int launch_receipt_prepare(struct launch_receipt *r, const struct runner *runner,
			   const struct spec *spec, char *const *argv, struct err *e)
{
	int ret = receipt_file_open(r->path, &r->file, e);

	if (ret == 0)
		ret = load_seed(true, r->seed, e);
	if (ret < 0)
		return ret;
	fill_host(r, runner, spec, argv);
	receipt_expect(&r->host, &r->expect);
	ret = receipt_begin(&r->host, &r->out);
	if (ret == 0)
		return receipt_file_reserve(&r->file, receipt_most(&r->out), e);
	return err_set(e, ret == -ENOBUFS ? ERR_LIMITED : ERR_INTERNAL, -ret, "--receipt: %s",
		       ret == -ENOBUFS ? "the settings are too long for one" : strerror(-ret));
}

const struct probe_expect *launch_receipt_expect(const struct launch_receipt *r) { return &r->expect; }

int launch_receipt_write(struct launch_receipt *r, struct err *e)
{
	/* it may be what takes longest: libsodium asks the processor what it can do */
	int ret = make_key(r->seed, &r->key, e);

	if (ret < 0)
		return ret;
	ret = receipt_compose(&r->host, &r->message.probe, &r->diffs, r->key.pub, &r->out);
	if (ret == 0)
		ret = receipt_seal(&r->key, &r->out);
	receipt_key_wipe(&r->key);
	if (ret < 0)
		return err_set(e, ERR_INTERNAL, -ret, "--receipt: %s", strerror(-ret));
	ret = receipt_file_write(&r->file, buf_head(&r->out), r->out.len, e);
	r->written = ret == 0;
	return ret;
}

int launch_receipt_replaced_fd(const struct launch_receipt *r)
{
	return r == NULL || !r->written ? -1 : r->file.old_fd;
}

int launch_receipt_sync(struct launch_receipt *r, struct err *e)
{
	return r->written ? receipt_file_sync(&r->file, e) : 0;
}

/* The receipt tells of the refusal too. */
static int refuse(struct launch_receipt *r, struct err *e)
{
	const struct probe_diffs *d = &r->diffs;
	int ret = launch_receipt_write(r, e);

	if (ret < 0)
		return ret;
	for (uint32_t i = 0; i < MIN(d->n, (uint32_t)PROBE_DIFFS_MAX); i++)
		say("receipt: %s: asked for %s, measured %s", d->d[i].wall, d->d[i].asked,
		    d->d[i].found);
	/* an agent that found nothing may have run it */
	return err_set(e, ERR_UNSUPPORTED, EPERM, "the sandbox is not as asked for (%u difference%s): %s", d->n,
		       d->n == 1 ? "" : "s",
		       r->message.probe.head.differences > 0 || (r->expect.flags & EXPECT_STOP) != 0
			   ? "the command was not started"
			   : "its agent did not notice, and it was ended");
}

int launch_receipt_hear(struct launch_receipt *r, struct err *e)
{
	ssize_t n;
	int ret;

	pages_make(&r->message, USUAL_REPORT);
	n = recv(r->fd, &r->message, sizeof(r->message), MSG_DONTWAIT);
	if (n < 0 && errno == EAGAIN)
		return 0;
	hang_up(r);
	if (n <= 0)
		return 0;
	ret = probe_check(&r->message.probe, (size_t)n, e);
	if (ret < 0)
		return ret;
	receipt_compare(&r->host, &r->message.probe, &r->diffs);
	if (r->diffs.n > 0)
		return refuse(r, e);
	if (r->message.probe.head.differences > 0)
		return err_set(e, ERR_LOST, EPROTO, "the agent compares the walls in another way");
	return 1;
}
