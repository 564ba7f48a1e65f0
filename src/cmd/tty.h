#pragma once
/* The caller's terminal: size and raw mode. */
#include "base/err.h"

#include <stdint.h>
#include <termios.h>

struct tty {
	int fd; /* borrowed; -1 = not in raw mode */
	struct termios saved;
};
/* Rows and columns; 24x80 when the terminal does not know. */
void tty_size(int fd, uint16_t *ret_rows, uint16_t *ret_cols);
/* Hand every key through as it is. Restored by tty_restore. */
int must_check tty_raw(struct tty *t, int fd, struct err *e);
void tty_restore(struct tty *t); /* accepts one that is not raw */
