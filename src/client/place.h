#pragma once
/*
 * Where the daemon is, and the key for it: from options, else the environment, else this machine's
 * usual place. A key is never a word of a command line, which every user of a machine can read.
 */
#include "base/err.h"

#include <stdbool.h>

#define PLACE_DEFAULT_URL "http://127.0.0.1:7080" /* as brigd's `listen` */
enum { PLACE_KEY_MAX = 512 };

struct place {
	/* as given; borrowed; NULL = not given */
	const char *given_url, *key_file, *ca;
	bool plain; /* a key may go over a network unencrypted */
	/* found by place_find; owned */
	char *url;    /* "http://host:port" without a slash at the end */
	char *socket; /* path of a unix socket, NULL = none */
	char *shown;  /* quoted, for messages */
	char *key;    /* NULL = there is none; wiped by place_done */
	bool secure;  /* https */
};

/*
 * url: --url, BRIG_URL, E2B_API_URL, PLACE_DEFAULT_URL. key: --key-file, BRIG_API_KEY, E2B_API_KEY,
 * $XDG_CONFIG_HOME/brig/key (~/.config without it). ERR_INVALID for what is no URL, a key file
 * others can read, and http:// to another machine without `plain`.
 */
int must_check place_find(struct place *w, struct err *e);
void place_done(struct place *w);

/* "http", "https" or "unix:" with a host; the pieces of it. Pure. */
int must_check place_url(const char *text, bool plain, struct place *ret, struct err *e);
/* Text of a key file or of the environment: one word of printable ASCII, spaces around it dropped.
 * -EINVAL. */
int must_check place_key(const char *text, char ret[PLACE_KEY_MAX + 1]);
