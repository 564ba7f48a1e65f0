#include "guest/conn.h"

#include "base/num.h"

#include <signal.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <unistd.h>

/*
 * Bytes of hostile processes may have descriptors with them, which go when the bytes are taken or the connection is closed. If
 * one was the last of its file this closes the file, and a socket with SO_LINGER set then waits for its own peer, for as
 * long as the sandbox likes. Only a signal ends that (PID 1 has others to serve): so while there may be such, a timer sends one,
 * again and again, since the first may come before the wait.
 *
 * A signal stays pending until all descriptors of one system call are gone: many wait no longer than one does. So
 * what is left in a connection is taken in few calls, and not left to the last close, which may be that of a child of
 * PID 1 that has just been cloned.
 */

enum { TICK_US = 1000, PIECES = 64, PIECE = 4096 };

static void woken(int sig) { (void)sig; }

/* us: from now on, again and again; 0 = no more. */
static void tick(int us)
{
	const struct timeval tv = {.tv_usec = us};
	const struct itimerval it = {.it_interval = tv, .it_value = tv};

	(void)setitimer(ITIMER_REAL, &it, NULL);
}

static void begin(void)
{
	(void)sigaction(SIGALRM, &(struct sigaction){.sa_handler = woken}, NULL);
	tick(TICK_US);
}

/* SIG_DFL: to PID 1 that is none */
static void end(void)
{
	tick(0);
	(void)sigaction(SIGALRM, &(struct sigaction){.sa_handler = SIG_DFL}, NULL);
}

ssize_t conn_recv(int fd, void *dst, size_t n)
{
	ssize_t got;

	begin();
	got = recv(fd, dst, n, MSG_DONTWAIT);
	end();
	return got;
}

void conn_drop(int fd)
{
	char bytes[PIECE];
	struct iovec iov = {bytes, sizeof(bytes)};
	struct mmsghdr v[PIECES];
	int n;

	for (size_t i = 0; i < ARRAY_LEN(v); i++)
		v[i] = (struct mmsghdr){.msg_hdr = {.msg_iov = &iov, .msg_iovlen = 1}};
	(void)shutdown(fd, SHUT_RD); /* it gets no more, and what it has ends */
	begin();
	do
		n = recvmmsg(fd, v, PIECES, MSG_DONTWAIT, NULL);
	while (n > 0 && v[n - 1].msg_len > 0);
	(void)close(fd);
	end();
}
