#include "spawn/inspect.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "gate/judge.h"
#include "spawn/program.h"
#include "spawn/secret.h"
#include "wire/inspect.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>

/*
 * The host's trusted certificates are opened here and read by the process itself; they are also what the sandbox trusts,
 * with the sandbox's own authority behind them. BRIG_EGRESS_CA names a file with more, for servers of the operator's own.
 */

enum { ANSWER_MS = 20000, BUNDLE_MAX = 4 << 20 };

static const char *const bundles[] = {"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt",
				      "/etc/ssl/ca-bundle.pem", "/etc/ssl/cert.pem"};

void inspect_init(struct inspect *i) { *i = (struct inspect){.pid = -1, .ctl_fd = -1, .peer_fd = -1}; }

static int open_bundle(void)
{
	int fd = -1;

	for (size_t i = 0; fd < 0 && i < sizeof(bundles) / sizeof(bundles[0]); i++)
		fd = open(bundles[i], O_RDONLY | O_CLOEXEC | O_NOCTTY);
	return fd;
}

/* All secrets the rules name, each once (wire/inspect.h). */
static int put_secrets(const struct judge *j, struct buf *out, struct err *e)
{
	const struct judge_inject *x;

	for (uint32_t i = 0; (x = judge_inject(j, i)) != NULL; i++) {
		size_t ref_n = x->secret != NULL ? strlen(x->secret) : 0, before = out->len;
		uint16_t sizes[2] = {(uint16_t)ref_n, 0};
		bool had = false;
		int r;

		for (uint32_t k = 0; k < i && ref_n > 0; k++)
			had |= judge_inject(j, k)->secret != NULL && strcmp(judge_inject(j, k)->secret, x->secret) == 0;
		if (had || ref_n == 0)
			continue;
		if (buf_put(out, sizes, sizeof(sizes)) < 0 || buf_put(out, x->secret, ref_n) < 0)
			return err_set(e, ERR_LIMITED, E2BIG, "all secrets together are too large");
		r = secret_read(x->secret, out, e);
		if (r < 0)
			return r;
		sizes[1] = (uint16_t)(out->len - before - sizeof(sizes) - ref_n);
		memcpy(out->data + out->off + before, sizes, sizeof(sizes));
	}
	return 0;
}

static int send_rules(struct inspect *i, uint32_t kind, const char *rules, size_t n, const struct buf *secrets,
		      const int *fds, size_t fds_n)
{
	struct inspect_ask q = {
	    .kind = kind, .text_n = (uint32_t)n, .secrets_n = (uint32_t)secrets->len, .trust_n = (uint32_t)fds_n};
	union {
		char space[CMSG_SPACE(INSPECT_TRUST_MAX * sizeof(int))];
		struct cmsghdr align;
	} ctl = {{0}};
	struct iovec iov[3] = {{.iov_base = &q, .iov_len = sizeof(q)},
			       {.iov_base = (void *)(uintptr_t)rules, .iov_len = n}, /* NOLINT(performance-no-int-to-ptr) */
			       {.iov_base = secrets->len > 0 ? secrets->data + secrets->off : NULL, .iov_len = secrets->len}};
	struct msghdr m = {.msg_iov = iov, .msg_iovlen = 3};

	(void)snprintf(q.sandbox, sizeof(q.sandbox), "%s", i->sandbox);
	if (fds_n > 0) {
		m.msg_control = &ctl;
		m.msg_controllen = (socklen_t)CMSG_SPACE(fds_n * sizeof(int));
		ctl.align.cmsg_level = SOL_SOCKET;
		ctl.align.cmsg_type = SCM_RIGHTS;
		ctl.align.cmsg_len = (socklen_t)CMSG_LEN(fds_n * sizeof(int));
		memcpy(CMSG_DATA(&ctl.align), fds, fds_n * sizeof(int));
	}
	return sendmsg(i->ctl_fd, &m, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

static int tell(struct inspect *i, uint32_t kind, const struct judge *j, const char *rules, size_t n, struct err *e)
{
	_cleanup_close_ int bundle_fd = -1, more_fd = -1;
	const char *more = getenv("BRIG_EGRESS_CA");
	int fds[INSPECT_TRUST_MAX], r;
	struct buf secrets;
	size_t k = 0;

	if (kind == INSPECT_ATTACH && (judge_reads(j) & JUDGE_READS_TLS) != 0) {
		bundle_fd = open_bundle();
		if (more != NULL && more[0] != '\0') {
			more_fd = open(more, O_RDONLY | O_CLOEXEC | O_NOCTTY);
			if (more_fd < 0)
				return err_set(e, ERR_NOT_FOUND, errno, "BRIG_EGRESS_CA: %s: %s", more, strerror(errno));
		}
		if (bundle_fd >= 0)
			fds[k++] = bundle_fd;
		if (more_fd >= 0)
			fds[k++] = more_fd;
		if (k == 0)
			return err_set(e, ERR_UNSUPPORTED, ENOENT,
				       "a rule ends TLS, but this host has no trusted certificates to verify servers with "
				       "(ca-certificates), and BRIG_EGRESS_CA names no file");
	}
	buf_init(&secrets, INSPECT_SECRETS_MAX);
	r = put_secrets(j, &secrets, e);
	if (r == 0) {
		r = send_rules(i, kind, rules, n, &secrets, fds, k);
		if (r < 0)
			(void)err_set(e, ERR_INTERNAL, -r, "brig-inspect: %s", strerror(-r));
	}
	if (secrets.data != NULL)
		explicit_bzero(secrets.data, secrets.cap);
	buf_done(&secrets);
	return r;
}

static int spawn_it(struct inspect *i, struct err *e)
{
	_cleanup_close_ int prog_fd = -1, far_fd = -1, near_peer = -1, high_ctl = -1, high_peer = -1;
	int ctl[2], peer[2], r, room = (INSPECT_TEXT_MAX + INSPECT_SECRETS_MAX) * 2;
	char path[512];
	bool ours;

	r = program_find("brig-inspect", path, sizeof(path), &prog_fd, &ours, e);
	if (r < 0)
		return r;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ctl) < 0)
		return err_set(e, ERR_INTERNAL, errno, "brig-inspect's socket: %s", strerror(errno));
	i->ctl_fd = ctl[0];
	far_fd = ctl[1];
	(void)setsockopt(i->ctl_fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, peer) < 0)
		return err_set(e, ERR_INTERNAL, errno, "brig-inspect's socket: %s", strerror(errno));
	i->peer_fd = peer[0];
	near_peer = peer[1];
	/* dup2 to the same number would leave it closed by execve */
	high_ctl = fcntl(far_fd, F_DUPFD_CLOEXEC, 16);
	high_peer = fcntl(near_peer, F_DUPFD_CLOEXEC, 16);
	r = high_ctl < 0 || high_peer < 0 ? -errno : program_spawn(prog_fd, "brig-inspect", high_ctl, high_peer, &i->pid);
	return r < 0 ? err_set(e, ERR_INTERNAL, -r, "starting brig-inspect: %s", strerror(-r)) : 0;
}

int inspect_start(struct inspect *i, const char *sandbox, const struct judge *j, const char *rules, size_t n,
		  struct err *e)
{
	int r;

	if (n > INSPECT_TEXT_MAX)
		return err_set(e, ERR_LIMITED, E2BIG, "egress: too many rules");
	(void)snprintf(i->sandbox, sizeof(i->sandbox), "%s", sandbox);
	if (judge_reads(j) == 0)
		return 0;
	r = spawn_it(i, e);
	return r < 0 ? r : tell(i, INSPECT_ATTACH, j, rules, n, e);
}

static int await(struct inspect *i, struct inspect_told *t, struct err *e)
{
	struct pollfd p = {.fd = i->ctl_fd, .events = POLLIN};
	int r;

	do
		r = poll(&p, 1, ANSWER_MS);
	while (r < 0 && errno == EINTR);
	if (r <= 0)
		return err_set(e, ERR_INTERNAL, ETIMEDOUT, "brig-inspect does not answer");
	if (recv(i->ctl_fd, t, sizeof(*t), MSG_DONTWAIT) != (ssize_t)sizeof(*t))
		return err_set(e, ERR_INTERNAL, EPIPE, "brig-inspect died");
	t->why[sizeof(t->why) - 1] = '\0';
	if (t->kind != INSPECT_ATTACHED || t->ca_n > sizeof(t->ca))
		return err_set(e, ERR_INVALID, EINVAL, "egress: %s", t->why);
	return 0;
}

/* The host's certificates, more ones, and the sandbox's own. */
static char *join_trust(const struct inspect_told *t)
{
	_cleanup_close_ int fd = open_bundle();
	struct buf b;
	char *ret = NULL;
	ssize_t n = fd >= 0 ? 1 : 0;

	buf_init(&b, BUNDLE_MAX);
	while (n > 0) {
		uint8_t *at = buf_reserve(&b, 65536);

		n = at != NULL ? read(fd, at, 65536) : -1;
		if (n > 0)
			buf_commit(&b, (size_t)n);
	}
	if (n == 0 && (b.len == 0 || buf_head(&b)[b.len - 1] == '\n' || buf_put(&b, "\n", 1) == 0) &&
	    buf_put(&b, t->ca, t->ca_n) == 0 && memchr(buf_head(&b), 0, b.len) == NULL)
		ret = strndup((const char *)buf_head(&b), b.len);
	buf_done(&b);
	return ret;
}

int inspect_trust(struct inspect *i, struct err *e)
{
	struct inspect_told t = {.kind = 0};
	int r;

	if (i->ctl_fd < 0)
		return 0;
	if (i->peer_fd >= 0)
		(void)close(steal_fd(&i->peer_fd));
	r = await(i, &t, e);
	if (r < 0 || t.ca_n == 0)
		return r;
	i->trust = join_trust(&t);
	return i->trust != NULL ? 0 : err_set(e, ERR_INTERNAL, ENOMEM, "the sandbox's trusted certificates could not be put together");
}

int inspect_policy(struct inspect *i, const char *rules, size_t n, struct err *e)
{
	struct inspect_told t = {.kind = 0};
	struct judge *j = NULL;
	int r = n > INSPECT_TEXT_MAX ? err_set(e, ERR_LIMITED, E2BIG, "egress: too many rules") : judge_new(rules, n, &j, e);

	if (r == 0 && i->ctl_fd < 0 && (judge_reads(j) & JUDGE_READS_TLS) != 0)
		r = err_set(e, ERR_INVALID, ENOTSUP, "a rule ends TLS, but the sandbox was started without a rule about HTTP");
	if (r == 0 && i->ctl_fd >= 0)
		r = tell(i, INSPECT_POLICY, j, rules, n, e);
	judge_free(j);
	return r < 0 || i->ctl_fd < 0 ? r : await(i, &t, e);
}

bool inspect_lost(struct inspect *i)
{
	struct inspect_told t;
	ssize_t n = recv(i->ctl_fd, &t, sizeof(t), MSG_DONTWAIT);

	return n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
}

static void let_go(struct inspect *i)
{
	if (i->ctl_fd >= 0)
		(void)close(i->ctl_fd);
	if (i->peer_fd >= 0)
		(void)close(i->peer_fd);
	if (i->pid > 0)
		(void)kill(i->pid, SIGKILL); /* it holds nothing that has to be tidied */
	free(i->trust);
	i->trust = NULL;
}

void inspect_leave(struct inspect *i)
{
	let_go(i);
	inspect_init(i);
}

void inspect_done(struct inspect *i)
{
	let_go(i);
	while (i->pid > 0 && waitpid(i->pid, NULL, 0) < 0 && errno == EINTR)
		;
	inspect_init(i);
}
