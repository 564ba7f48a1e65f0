#pragma once
/* What the commands of brig-client share. */
#include "client/api.h"
#include "cmd/command.h"

/* The options every command has; rows of options.def in this order. */
enum { OPT_URL = 1, OPT_KEY_FILE, OPT_CA, OPT_PLAIN };

/*
 * Read the options of a command. Those of the daemon go to c->where; each other to take (0, or
 * -errno and words). Options may stand behind operands too: the operands are moved to argv[1..], a
 * NULL behind them, and their number returned. With keep >= 0 the first word after that many
 * operands ends the options, and it and all behind it are operands as they are. -EINVAL.
 */
int must_check client_options(struct client *c, const struct opt *opts, unsigned n, char **argv,
			      int keep,
			      int (*take)(void *arg, int id, const char *value, struct err *e),
			      void *arg, struct err *e);
/* Between min and max operands: 0 or -EINVAL with `usage` in words. */
int must_check client_count(int n, int min, int max, const char *what, struct err *e);
/* The end of a command: a failure is said (a wrong use with where to read more), everything freed.
 * Returns the exit code. */
int client_end(struct client *c, const char *command, int r, const struct err *e);

/* "NAME=VALUE" into an object of strings. */
int must_check client_pair(json_t *o, const char *text, const char *option, struct err *e);
/* A duration in whole seconds, at least one. */
int must_check client_seconds(const char *text, const char *what, json_int_t *ret, struct err *e);
/* Print JSON, in ASCII, and a line end; takes the reference. */
int must_check client_print(json_t *o, struct err *e);
/* Print text as it is. */
int must_check client_puts(const char *s, struct err *e);
int must_check client_flush(struct err *e);

/* ---- tables for people (table.c) ---- */
struct table {
	unsigned cols;
	char **cell; /* owned; rows one after the other */
	size_t n, cap;
	bool failed;
};
void table_cell(struct table *t, const char *text); /* foreign text: it is quoted */
void table_cellf(struct table *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Print and empty it. Columns are as wide as they must be. */
int must_check table_print(struct table *t, struct err *e);
void table_done(struct table *t);

/* "2026-11-30T11:22:33.444Z" in ms since 1970; -1 = it is none. */
int64_t client_time(const char *stamp);
int64_t client_now(void);
/* A span for people, in its largest unit: "12s", "4m", "3h", "2d". */
enum { SPAN_TEXT = 24 };
const char *client_span(int64_t ms, char dst[SPAN_TEXT]);
/* Bytes for people: "3.4M". */
const char *client_size(uint64_t bytes, char dst[SPAN_TEXT]);

#define CLIENT(id, name, usage, summary) extern const struct command_impl client_##id;
#include "cmd/client_commands.def"
#undef CLIENT

int client_main(int argc, char **argv);
