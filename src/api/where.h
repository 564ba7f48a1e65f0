#pragma once
/*
 * Where a request goes, by its head alone: to a port of a sandbox (two header fields, or the first label of its host
 * name), to whichever sandbox a file's signature was made for, or to the control API. Pure; the head is hostile.
 */
#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

enum { WHERE_ID_MAX = 64, PORT_ENVD = 49983, PORT_CODE = 49999 };

enum where_kind { WHERE_CONTROL, WHERE_BOX, WHERE_SIGNED, WHERE_BAD };

struct where {
	enum where_kind kind;
	char id[WHERE_ID_MAX + 1]; /* WHERE_BOX: [a-z0-9]+ */
	uint16_t port;
	const char *why; /* WHERE_BAD: words for the client */
};

/* Values of the fields e2b-sandbox-id, e2b-sandbox-port and host, NULL = not there; target: path and query. */
void where_find(const char *id, const char *port, const char *host, const char *target, struct where *ret);
/* Whether envd offers this path to the host only. */
bool where_internal(const char *target);
