#include "spawn/secret.h"

#include "base/cleanup.h"
#include "base/num.h"
#include "sys/loop.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>

/* References come from the caller's own rules: whoever can write those may name any file or command of the caller's. */

enum { FDS_MAX = 16 };

static struct {
	int fd;
	char *value;
} kept[FDS_MAX]; /* descriptors can be read once */

/* All of it, at most SECRET_MAX + 1 bytes, until a moment (0 = however long). */
static int read_all(int fd, uint64_t until_ms, struct buf *out)
{
	for (;;) {
		struct pollfd p = {.fd = fd, .events = POLLIN};
		uint64_t now = until_ms != 0 ? loop_clock_ms() : 0;
		uint8_t *at = buf_reserve(out, 1024);
		ssize_t n;

		if (at == NULL)
			return -EFBIG;
		if (until_ms != 0 && now >= until_ms)
			return -ETIMEDOUT;
		if (until_ms != 0 && poll(&p, 1, (int)(until_ms - now)) == 0)
			return -ETIMEDOUT;
		n = read(fd, at, 1024);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			return 0;
		buf_commit(out, (size_t)n);
	}
}

static int from_file(const char *path, struct buf *out)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);

	return fd < 0 ? -errno : read_all(fd, 0, out);
}

static int from_fd(const char *text, struct buf *out)
{
	char *end = NULL;
	long nr = strtol(text, &end, 10);
	int r;

	if (*text < '0' || *text > '9' || *end != '\0' || nr > 65535)
		return -EINVAL;
	for (size_t i = 0; i < FDS_MAX; i++)
		if (kept[i].value != NULL && kept[i].fd == (int)nr)
			return buf_put(out, kept[i].value, strlen(kept[i].value));
	r = read_all((int)nr, 0, out);
	for (size_t i = 0; r == 0 && i < FDS_MAX; i++)
		if (kept[i].value == NULL) {
			kept[i].fd = (int)nr;
			kept[i].value = strndup(out->len > 0 ? (const char *)buf_head(out) : "", out->len);
			break;
		}
	return r;
}

static int from_env(const char *name, struct buf *out)
{
	const char *v = getenv(name);

	return v == NULL ? -ENOENT : buf_put(out, v, strlen(v));
}

static int from_cmd(const char *words, struct buf *out)
{
	char sh[] = "/bin/sh", c[] = "-c", *text = strdup(words), *argv[] = {sh, c, text, NULL};
	_cleanup_close_ int read_fd = -1, write_fd = -1;
	posix_spawn_file_actions_t fa;
	int p[2], r, status = 0;
	pid_t pid = -1;

	if (text == NULL || pipe2(p, O_CLOEXEC) < 0) {
		free(text);
		return -ENOMEM;
	}
	read_fd = p[0];
	write_fd = p[1];
	r = posix_spawn_file_actions_init(&fa);
	if (r == 0) {
		r = posix_spawn_file_actions_addopen(&fa, 0, "/dev/null", O_RDONLY, 0);
		if (r == 0)
			r = posix_spawn_file_actions_adddup2(&fa, write_fd, 1);
		if (r == 0)
			r = posix_spawn(&pid, sh, &fa, NULL, argv, environ);
		(void)posix_spawn_file_actions_destroy(&fa);
	}
	free(text);
	if (r != 0)
		return -r;
	(void)close(steal_fd(&write_fd));
	r = read_all(read_fd, loop_clock_ms() + SECRET_CMD_MS, out);
	if (r < 0)
		(void)kill(pid, SIGKILL);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return r == 0 && status != 0 ? -EIO : r;
}

static int read_any(const char *ref, struct buf *out)
{
	static const struct {
		const char *word;
		int (*read)(const char *rest, struct buf *out);
	} kinds[] = {{"env:", from_env}, {"file:", from_file}, {"fd:", from_fd}, {"cmd:", from_cmd}};

	for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
		if (strncmp(ref, kinds[i].word, strlen(kinds[i].word)) == 0)
			return kinds[i].read(ref + strlen(kinds[i].word), out);
	return -EPROTONOSUPPORT;
}

static bool printable(const uint8_t *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (p[i] < 0x20 || p[i] >= 0x7f)
			return false;
	return n > 0 && n <= SECRET_MAX;
}

int secret_read(const char *ref, struct buf *ret, struct err *e)
{
	struct buf b;
	size_t n;
	int r;

	buf_init(&b, SECRET_MAX + 4096);
	r = read_any(ref, &b);
	n = b.len;
	if (r == 0 && n > 0 && buf_head(&b)[n - 1] == '\n')
		n--;
	if (r == 0 && n > 0 && buf_head(&b)[n - 1] == '\r')
		n--;
	if (r == -EPROTONOSUPPORT)
		r = err_set(e, ERR_INVALID, EINVAL, /* not shown: it may be the secret itself */
			    "a secret's reference: env:NAME, file:PATH, fd:NUMBER or cmd:COMMAND is needed");
	else if (r < 0)
		r = err_set(e, ERR_NOT_FOUND, -r, "secret %s: %s", ref, strerror(-r));
	else if (!printable(buf_head(&b), n))
		r = err_set(e, ERR_INVALID, EINVAL, "secret %s: 1 to %d printable characters are needed", ref, SECRET_MAX);
	else if (buf_put(ret, buf_head(&b), n) < 0)
		r = err_set(e, ERR_LIMITED, E2BIG, "secret %s: all secrets together are too large", ref);
	if (b.data != NULL)
		explicit_bzero(b.data, b.cap);
	buf_done(&b);
	return r;
}
