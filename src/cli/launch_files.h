#pragma once
/*
 * What one launch copies into its sandbox before the command and out of it afterwards.
 *
 * Three kinds of item: a host file or folder in (copy_in), a pack stream kept in memory in (a feed),
 * and a path inside out (copy_out, to the host or into memory).
 */
#include "session/copy_in.h"
#include "session/copy_out.h"

struct launch_files; /* opaque */

int must_check launch_files_new(struct launch_files **ret, struct err *e);
void launch_files_free(struct launch_files *f); /* accepts NULL */

/* The copy is taken over, also on failure; `inside` is copied. */
int must_check launch_files_in_take(struct launch_files *f, struct copy_in *c, const char *inside,
				    struct err *e);
/* may_miss: a path that is not there any more is no failure. */
int must_check launch_files_out_take(struct launch_files *f, struct copy_out *c, const char *inside,
				     bool may_miss, struct err *e);
/* tee is borrowed until launch_files_free. */
int must_check launch_files_feed(struct launch_files *f, const struct copy_tee *tee,
				 const char *inside, struct err *e);

/* ---- for launch.c ---- */
bool launch_files_any(const struct launch_files *f, bool out); /* f may be NULL */
/* Open the requests of one direction. */
int must_check launch_files_begin(struct launch_files *f, struct session *s, bool out,
				  const char *user, struct err *e);
/* 1: all of that direction have ended; 0: not yet; -errno: they have, this was the first failure. */
int must_check launch_files_check(struct launch_files *f, bool out, struct err *e);
/* Bytes of files that one direction has moved so far. */
uint64_t launch_files_bytes(const struct launch_files *f, bool out);
/* Abort what still runs; before session_free. f may be NULL. */
void launch_files_stop(struct launch_files *f);
/* Leave out what .gitignore files name when copying out. */
void launch_files_gitignore(struct launch_files *f);
