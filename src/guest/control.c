#include "guest/control.h"

#include "base/cleanup.h"
#include "guest/launch.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/random.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>

/*
 * PORT joins a stream to a TCP connection inside the sandbox; nothing of its bytes is looked at.
 * CLOCK_SET and RESEED need privilege over the kernel that only tiers with their own kernel give; elsewhere
 * the kernel's EPERM is the answer.
 */

enum { SHUTDOWN_GRACE_MS = 500 };

static void port_start(struct agent *a, struct job *j, const struct ask *q)
{
	struct sockaddr_in to = {.sin_family = AF_INET,
				 .sin_port = htons(q->port),
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	_cleanup_close_ int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	union {
		const struct sockaddr_in *in;
		const struct sockaddr *any;
	} addr = {.in = &to};

	if (q->port == 0) {
		job_end_error(j, EINVAL, "no port given");
		return;
	}
	if (fd < 0 || (connect(fd, addr.any, sizeof(to)) < 0 && errno != EINPROGRESS)) {
		job_end_error(j, errno, "connecting to the port");
		return;
	}
	j->medium = JOB_SOCKET;
	j->connecting = true;
	j->in.fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	if (j->in.fd < 0) {
		job_end_error(j, errno, "connecting to the port");
		return;
	}
	j->out[CHAN_OUT - 1].fd = steal_fd(&fd);
	j->out[CHAN_OUT - 1].open = true;
	(void)a;
}

void control_connected(struct agent *a, struct job *j)
{
	int err = 0;
	socklen_t len = sizeof(err);

	j->connecting = false;
	if (getsockopt(j->in.fd, SOL_SOCKET, SO_ERROR, &err, &len) < 0)
		err = errno;
	if (err != 0) {
		(void)close(steal_fd(&j->out[CHAN_OUT - 1].fd));
		job_end_error(j, err, "connecting to the port");
		return;
	}
	peer_send_u32(&a->peer, FRAME_START, j->id, 0, 0);
	job_write_in(&a->peer, j);
}

static void clock_set(struct job *j, const struct ask *q)
{
	struct timespec ts = {.tv_sec = (time_t)(q->nsec / 1000000000u), .tv_nsec = (long)(q->nsec % 1000000000u)};

	if (!ask_has(q, F_NSEC))
		job_end_error(j, EINVAL, "no time given");
	else if (clock_settime(CLOCK_REALTIME, &ts) < 0)
		job_end_error(j, errno, "setting the clock");
	else
		job_end_done(j);
}

static void reseed(struct job *j, const struct ask *q)
{
	union {
		struct rand_pool_info info;
		uint8_t space[sizeof(struct rand_pool_info) + 1024];
	} u;
	_cleanup_close_ int fd = open("/dev/urandom", O_WRONLY | O_CLOEXEC);

	if (q->entropy.n == 0) {
		job_end_error(j, EINVAL, "no entropy given");
		return;
	}
	u.info.entropy_count = (int)q->entropy.n * 8;
	u.info.buf_size = (int)q->entropy.n;
	memcpy(u.space + sizeof(u.info), q->entropy.p, q->entropy.n);
	if (fd < 0 || ioctl(fd, RNDADDENTROPY, &u.info) < 0 || ioctl(fd, RNDRESEEDCRNG) < 0)
		job_end_error(j, errno, "reseeding the kernel's random pool");
	else
		job_end_done(j);
	explicit_bzero(&u, sizeof(u));
}

static void shutdown_start(struct agent *a, struct job *j)
{
	a->shutdown_id = j->id;
	a->shutdown_ns = agent_now() + SHUTDOWN_GRACE_MS * UINT64_C(1000000);
	launch_kill_all(SIGTERM);
	launch_kill_all(SIGCONT);
}

void control_start(struct agent *a, struct job *j, const struct ask *q)
{
	switch ((int)q->kind) {
	case REQ_PORT: port_start(a, j, q); break;
	case REQ_CLOCK_SET: clock_set(j, q); break;
	case REQ_RESEED: reseed(j, q); break;
	case REQ_SHUTDOWN: shutdown_start(a, j); break;
	default: job_end_error(j, ENOSYS, "the agent does not know this request"); break;
	}
}
