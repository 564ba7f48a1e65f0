#pragma once
/*
 * The keeper: the process that holds one running sandbox. It has the host end of the agent's
 * stream, the runner's control socket and a listening socket, and answers calls (wire/call.h) that
 * brigd passes on. It outlives whoever started it and whoever calls it; when the sandbox ends it
 * writes how into a file and exits, and when it dies the runner ends the sandbox.
 */
#include "core/spec.h"
#include "spawn/door.h"
#include "spawn/runner.h"

#include <sys/types.h>

struct keep_args {
	struct runner *runner;	 /* started and held; keep_main's from now on */
	const struct spec *spec; /* borrowed */
	const char *template;	 /* the name it was made from; borrowed */
	int listen_fd;		 /* listening unix stream socket, non-blocking; borrowed */
	int end_fd; /* file, open for writing: one line of JSON is written when the sandbox has
		       ended; -1 = none. Borrowed */
	struct door *door; /* of its gate, keep_main serves it; NULL = none. Borrowed */
	int interp_fd;	  /* brig-interp, open for reading: with the code interpreter; -1 = without.
			     Borrowed */
	uid_t client_uid; /* who may connect, beside root and ourselves */
};

/*
 * Serve until the sandbox has ended. Returns the process's exit code, 0 = the end was written.
 * Single-threaded. Opens no file: everything it needs is in *a, so the process may be locked in
 * before (sys/confine.h). SIGTERM ends the sandbox. The line of the end file:
 *   {"how":"killed"|"timeout"|"lost"|"exit","memory_peak":bytes,"cpu_us":n,"wall_us":n,
 *    "oom_kills":n,"pids_denied":n,"denied":attempts the gate refused}
 */
int keep_main(const struct keep_args *a);
