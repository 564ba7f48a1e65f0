#include "receipt/receipt.h"

#include "base/cleanup.h"
#include "base/quote.h"
#include "sys/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/*
 * A receipt's file. It is opened under a name beside its own before the sandbox starts, so that a
 * place where nothing can be written is known by then, and renamed when it is whole: whoever looks
 * finds the old file, or the whole new one. What is there must be a plain file or nothing; a link
 * is replaced, not followed.
 */

int receipt_file_open(const char *path, struct receipt_file *ret, struct err *e)
{
	struct receipt_file f = {.fd = -1};
	char q[QUOTE_MAX];
	struct stat st;

	*ret = f;
	if (lstat(path, &st) == 0 && !S_ISREG(st.st_mode) && !S_ISLNK(st.st_mode))
		return err_set(e, ERR_INVALID, EINVAL,
			       "--receipt %s: it is there and no plain file", quote(path, q));
	f.path = strdup(path);
	if (f.path == NULL || asprintf(&f.temp, "%s.%d.new", path, (int)getpid()) < 0)
		f.temp = NULL;
	if (f.temp != NULL) {
		/* left by a process of our number that was killed */
		if (unlink(f.temp) < 0 && errno != ENOENT)
			f.fd = -1;
		else
			f.fd = open(f.temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW,
				    0644);
	} else {
		errno = ENOMEM;
	}
	if (f.fd < 0) {
		int err = errno;

		free(f.path);
		free(f.temp);
		return err_set(e, ERR_INVALID, err, "--receipt %s: %s", quote(path, q),
			       strerror(err));
	}
	*ret = f;
	return 0;
}

int receipt_file_write(struct receipt_file *f, const void *p, size_t n, struct err *e)
{
	char q[QUOTE_MAX];
	int r = file_write_all(f->fd, p, n);

	if (close(steal_fd(&f->fd)) < 0 && r == 0)
		r = -errno;
	if (r == 0 && rename(f->temp, f->path) < 0)
		r = -errno;
	if (r < 0)
		return err_set(e, ERR_INTERNAL, -r, "--receipt %s: %s", quote(f->path, q),
			       strerror(-r));
	free(steal_ptr(&f->temp));
	return 0;
}

void receipt_file_done(struct receipt_file *f)
{
	if (f->fd >= 0)
		(void)close(steal_fd(&f->fd));
	if (f->temp != NULL)
		(void)unlink(f->temp);
	free(f->temp);
	free(f->path);
	*f = (struct receipt_file){.fd = -1};
}

int receipt_file_read(const char *path, uint8_t **ret, size_t *ret_n, struct err *e)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	_cleanup_free_ uint8_t *p = malloc(RECEIPT_MAX + 1);
	char q[QUOTE_MAX];
	size_t n = 0;
	ssize_t got = 1;

	if (p == NULL)
		return err_set(e, ERR_INTERNAL, ENOMEM, "out of memory");
	while (fd >= 0 && got != 0 && n < RECEIPT_MAX + 1) {
		got = read(fd, p + n, RECEIPT_MAX + 1 - n);
		if (got < 0 && errno != EINTR)
			break;
		n += got > 0 ? (size_t)got : 0;
	}
	if (fd < 0 || got < 0)
		return err_set(e, ERR_NOT_FOUND, errno, "%s: %s", quote(path, q), strerror(errno));
	*ret = steal_ptr(&p);
	*ret_n = n;
	return 0;
}
