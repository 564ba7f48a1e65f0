#pragma once
/* Is the first word of the command a program file of the caller's that must be copied in? */
#include "base/err.h"

struct script {
	char path[4096];      /* the caller's file */
	char inside[4096];    /* where it is copied to */
	char interpreter[64]; /* program inside that runs it; empty = it runs itself */
	char arg[256];        /* one argument for the interpreter; empty = none */
};

/* 1: it is, *ret is filled in. 0: the word is a command inside. -EINVAL with e. */
int must_check script_detect(const char *word, struct script *ret, struct err *e);
/* Pure part, for one `#!` line (without its end): 0, -EINVAL when it names no interpreter. */
int must_check script_shebang(const char *line, size_t len, struct script *ret);
