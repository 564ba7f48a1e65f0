#pragma once
/*
 * brig-interp: the half of the code interpreter that runs inside the sandbox, between the keeper
 * and the process that runs code in one language (the kernel). One per context.
 *
 *   brig-interp python|javascript|typescript|bash
 *
 * stdin: one command a line, from the keeper, JSON:
 *   {"op":"setup","cwd":STR?,"env":{NAME:VALUE}?}       before the first code: working folder,
 * environment
 *   {"op":"execute","code":STR,"env":{NAME:VALUE}?}     env for this execution only
 *   {"op":"interrupt"}                                  stop what runs
 * stdout: one event a line, JSON in ASCII, as docs/code-interpreter.md has them; and
 *   {"type":"ready"}               once, before anything else
 *   {"type":"failed","text":STR}   instead: the kernel cannot be started; then the end
 *   {"type":"died","text":STR}     the kernel's process is gone; then the end
 * End of stdin ends it.
 *
 * What the kernel writes to its descriptors 1 and 2, itself or by its children, becomes stdout and
 * stderr events. Its own events it writes to descriptor 4, commands it reads from 3; they are
 * passed on line by line, and whatever was in its standard output before such a line is an event
 * before it.
 *
 * It is no wall: code in the sandbox may kill it, or write what it likes where it does. The keeper
 * takes every line as a stranger's.
 */
#include "base/buf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

int interp_main(int argc, char **argv); /* the process's exit code */

enum {
	INTERP_COMMAND_MAX = 16 * 1024 * 1024, /* bytes of a command */
	INTERP_EVENT_MAX =
	    8 * 1024 * 1024,	     /* bytes of a line of the kernel's; a longer one ends it */
	INTERP_TEXT_MAX = 32 * 1024, /* bytes of output in one event */
};

enum interp_style {
	STYLE_JSON,  /* reads its commands as they came */
	STYLE_SHELL, /* reads shell commands on its stdin */
};
struct interp_kernel {
	const char *word; /* its language */
	enum interp_style style;
	bool told;	     /* an interrupt is a command too, not only a signal */
	const char *program; /* looked for in PATH */
	const char *package; /* Debian's, for people */
	const char *const *argv;
	const char *source,
	    *source_end; /* its program: on descriptor 5, or for a shell its first input */
};
const struct interp_kernel *interp_kernel(const char *word); /* NULL = there is none */

/* A started kernel. Every descriptor is owned and non-blocking. */
struct interp_child {
	pid_t pid; /* also its process group */
	int pidfd;
	int in;	    /* commands */
	int event;  /* events */
	int out[2]; /* what it writes to 1 and 2 */
};
/* 0, -ENOENT: no such program; -errno. */
int must_check interp_start(const struct interp_kernel *k, struct interp_child *ret);

/* text.c: bytes of a program as JSON, whatever they are. */
struct interp_text {
	uint8_t part[4]; /* the beginning of a character whose rest did not come yet */
	uint8_t part_n;
};
/* Append an event of this type with p[0..n) to b, without what may be half a character at the end;
 * nothing if that is all. What is no UTF-8 becomes U+FFFD. n <= INTERP_TEXT_MAX. 0, -ENOMEM,
 * -ENOBUFS. */
int must_check interp_text(struct interp_text *t, const char *type, const void *p, size_t n,
			   struct buf *b);
/* No more bytes come for now: half a character is shown as U+FFFD. */
int must_check interp_text_end(struct interp_text *t, const char *type, struct buf *b);

/* command.c: a command as this kernel reads it. 0; 1 = it is an interrupt, and b has what the
 * kernel is to be told of it, if anything; -EPROTO: no command; -ENOMEM, -ENOBUFS. */
int must_check interp_command(const struct interp_kernel *k, const void *line, size_t n,
			      struct buf *b, bool *ret_execute);
