#include "cmd/tty.h"
/* Raw mode is left on every way out of launch_run; signals arrive by signalfd, so none of them ends
 * the process in between. */
#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>

void tty_size(int fd, uint16_t *ret_rows, uint16_t *ret_cols)
{
	struct winsize w = {0};

	*ret_rows = 24;
	*ret_cols = 80;
	if (ioctl(fd, TIOCGWINSZ, &w) == 0 && w.ws_row > 0 && w.ws_col > 0) {
		*ret_rows = w.ws_row;
		*ret_cols = w.ws_col;
	}
}

int tty_raw(struct tty *t, int fd, struct err *e)
{
	struct termios raw;

	if (tcgetattr(fd, &t->saved) < 0)
		return err_set(e, ERR_INVALID, errno, "--tty: standard input is no terminal: %s",
			       strerror(errno));
	raw = t->saved;
	cfmakeraw(&raw);
	if (tcsetattr(fd, TCSADRAIN, &raw) < 0)
		return err_set(e, ERR_INTERNAL, errno, "--tty: setting the terminal: %s",
			       strerror(errno));
	t->fd = fd;
	return 0;
}

void tty_restore(struct tty *t)
{
	if (t->fd >= 0)
		(void)tcsetattr(t->fd, TCSADRAIN, &t->saved);
	t->fd = -1;
}
