#include "cli/launch_receipt.h"
/*
 * A start with a receipt. The agent's answer is hostile and goes through probe_decode before anything looks
 * at it; its bytes are kept up to the size of one report. What the host knows by itself (its namespaces,
 * kernel and key) is fetched while the agent comes up.
 */
#include "base/cleanup.h"
#include "base/num.h"
#include "base/quote.h"
#include "cli/run_report.h"
#include "cli/say.h"
#include "receipt/receipt.h"
#include "sys/ids.h"
#include "core/state.h"
#include "wire/frame.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

struct launch_receipt {
	struct receipt_file file;
	struct receipt_key key;
	struct receipt_host host;
	struct utsname uts;
	struct buf answer;
	bool answered;
	struct stream_result result;
	struct probe probe;
	struct receipt_diffs diffs;
};

int launch_receipt_new(const char *path, struct launch_receipt **ret, struct err *e)
{
	struct launch_receipt *r = calloc(1, sizeof(*r));
	int err;

	if (r == NULL)
		return err_set(e, ERR_INTERNAL, ENOMEM, "out of memory");
	buf_init(&r->answer, sizeof(struct probe));
	err = receipt_file_open(path, &r->file, e);
	if (err < 0) {
		free(r);
		return err;
	}
	*ret = r;
	return 0;
}

void launch_receipt_free(struct launch_receipt *r)
{
	if (r == NULL)
		return;
	receipt_file_done(&r->file);
	receipt_key_wipe(&r->key);
	buf_done(&r->answer);
	free(r);
}

static int load_key(struct receipt_key *ret, struct err *e)
{
	char folder[512];
	int r = state_dir(folder, sizeof(folder) - sizeof("/keys"), e);

	if (r == 0)
		r = state_make_dir(folder, e);
	if (r < 0)
		return r;
	memcpy(folder + strlen(folder), "/keys", sizeof("/keys"));
	r = state_make_dir(folder, e);
	return r < 0 ? r : receipt_key_load(folder, ret, e);
}

int launch_receipt_key(uint8_t pub[32], struct err *e)
{
	struct receipt_key k;
	int r = load_key(&k, e);

	if (r == 0)
		memcpy(pub, k.pub, RECEIPT_PUB);
	receipt_key_wipe(&k);
	return r;
}

static ssize_t on_data(void *arg, struct stream *s, uint8_t chan, const void *p, size_t n)
{
	struct launch_receipt *r = arg;

	(void)s;
	/* one byte too many makes the size wrong, which is all that is needed */
	if (chan != CHAN_OUT || buf_put(&r->answer, p, n) < 0)
		return -EMSGSIZE;
	return (ssize_t)n;
}

static void on_result(void *arg, struct stream *s, const struct stream_result *result)
{
	struct launch_receipt *r = arg;

	(void)s;
	r->answered = true;
	r->result = *result;
}

static const struct stream_ops ops = {.data = on_data, .result = on_result};

static int open_request(struct launch_receipt *r, struct session *s, const struct spec *spec, struct err *e)
{
	/* public and read-only: nothing is given away should Landlock be missing */
	_cleanup_close_ int outside_fd = open("/proc/version", O_PATH | O_CLOEXEC);
	struct msg_writer w = {NULL, 0};
	struct buf req;
	int ret;

	r->host.outside_tried = outside_fd >= 0;
	buf_init(&req, 4096);
	w.b = &req;
	msg_u64(&w, F_KIND, REQ_PROBE);
	msg_u64(&w, F_FLAGS, outside_fd >= 0 ? REQ_FD_OUTSIDE : 0);
	if (spec->user != NULL)
		msg_str(&w, F_USER, spec->user);
	ret = w.err != 0 ? err_set(e, ERR_INTERNAL, -w.err, "the request to measure the walls")
			 : session_open(s, &req, &outside_fd, outside_fd >= 0 ? 1 : 0, &ops, r, NULL, e);
	buf_done(&req);
	return ret;
}

int launch_receipt_ask(struct launch_receipt *r, struct session *s, const struct spec *spec, struct err *e)
{
	int ret = open_request(r, s, spec, e);

	for (int i = 0; i < PROBE_NSS; i++) {
		char path[64];
		struct stat st;

		(void)snprintf(path, sizeof(path), "/proc/self/ns/%s", probe_ns_names[i]);
		r->host.ns[i] = stat(path, &st) == 0 ? st.st_ino : 0;
	}
	(void)uname(&r->uts);
	return ret < 0 ? ret : load_key(&r->key, e);
}

bool launch_receipt_answered(const struct launch_receipt *r) { return r->answered; }

static void put_gaps(struct receipt_host *h, uint32_t weaker)
{
	for (uint32_t bit = 1; bit != 0 && h->gaps < RECEIPT_GAPS_MAX; bit <<= 1)
		if ((weaker & bit) != 0)
			h->gap[h->gaps++] = (struct receipt_gap){outcome_wall_name(bit),
								 runner_weaker_text((enum runner_weaker)bit)};
}

static struct receipt_limit limit_of(struct runner_limit l)
{
	return (struct receipt_limit){.known = l.known, .value = l.value};
}

static void fill_host(struct launch_receipt *r, const struct runner *runner, const struct spec *spec,
		      char *const *argv)
{
	struct receipt_host *h = &r->host;
	uint32_t weaker = runner_weaker(runner);
	struct runner_limits l;

	runner_limits(runner, &l);
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

static int write_receipt(struct launch_receipt *r, struct err *e)
{
	_cleanup_free_ char *payload = receipt_compose(&r->host, &r->probe, &r->diffs, r->key.pub);
	struct buf file;
	int ret;

	buf_init(&file, RECEIPT_MAX);
	ret = payload == NULL ? -ENOMEM : receipt_seal(payload, &r->key, &file);
	ret = ret < 0 ? err_set(e, ERR_INTERNAL, -ret, "--receipt: %s", strerror(-ret))
		      : receipt_file_write(&r->file, buf_head(&file), file.len, e);
	buf_done(&file);
	return ret;
}

int launch_receipt_settle(struct launch_receipt *r, const struct runner *runner, const struct spec *spec,
			  char *const *argv, struct err *e)
{
	const struct receipt_diffs *d = &r->diffs;
	char q[QUOTE_MAX];
	int ret;

	if (r->result.how != HOW_DONE)
		return err_set(e, ERR_INTERNAL, r->result.err, "--receipt: the walls could not be measured: %s",
			       quote_bare(r->result.text, q));
	ret = probe_decode(buf_head(&r->answer), r->answer.len, &r->probe, e);
	if (ret < 0)
		return ret;
	fill_host(r, runner, spec, argv);
	receipt_compare(&r->host, &r->probe, &r->diffs);
	ret = write_receipt(r, e);
	if (ret < 0 || d->n == 0)
		return ret;
	for (uint32_t i = 0; i < MIN(d->n, (uint32_t)RECEIPT_DIFFS_MAX); i++)
		say("receipt: %s: asked for %s, measured %s", d->d[i].wall, d->d[i].asked, d->d[i].found);
	return err_set(e, ERR_UNSUPPORTED, EPERM,
		       "the sandbox is not as asked for (%u difference%s): the command was not started", d->n,
		       d->n == 1 ? "" : "s");
}
