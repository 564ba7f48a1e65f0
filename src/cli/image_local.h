#pragma once
/* A registry of this machine or of a private network, for a sandbox that otherwise reaches neither.
 */
#include "base/err.h"
#include "core/spec.h"

enum { IMAGE_LOCAL_TEXT = 300 };

struct image_local {
	char host[IMAGE_LOCAL_TEXT]; /* HOST:PORT as the tools in the sandbox are to name it */
	char rule[IMAGE_LOCAL_TEXT]; /* one line for the gate, with its end */
	struct strv hosts;	     /* lines of /etc/hosts; owned */
};

/*
 * text: HOST[:PORT]. Look it up on the host (443 without a port), and take the first of its addresses that
 * answers: that one, at that port, is what the sandbox will reach. ERR_NOT_FOUND when none does.
 * Blocks up to some seconds.
 */
int must_check image_local_find(const char *text, struct image_local *ret, struct err *e);
void image_local_done(struct image_local *l);
