#pragma once
/*
 * The network objects of the API, translated into brig's rules (docs/daemon.md). What has no translation is refused with
 * the reason, never left out.
 */
#include "wire/spawnd.h"

#include <jansson.h>
#include <stdbool.h>

struct network {
	enum spawnd_egress egress;
	char *text;           /* for brig-spawn; owned; NULL = none */
	bool private_traffic; /* allowPublicTraffic: false */
	bool no_internet;
};

/*
 * o: the object, NULL = none. no_internet: allow_internet_access is false. update: fields of an update are allowed, and
 * allow_internet_access is one of them; else those of a creation. 0, or ERR_INVALID with the reason. The caller
 * frees ret->text.
 */
int must_check network_read(const json_t *o, bool no_internet, bool update, struct network *ret, struct err *e);
