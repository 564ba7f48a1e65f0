#pragma once
/* The proxy a registry is reached through, as a rule of the gate: the tools inside know nothing of it. */
#include "base/err.h"

enum { IMAGE_PROXY_TEXT = 512 };

/*
 * text: [http://]HOST:PORT, HOST a name or an address, looked up here, once. credentials: where "USER:PASSWORD" is found, as
 * `credentials` of brig-egress(5); NULL = none. rules: the lines for the gate (gate/judge.h). It is told names, and asks for
 * them itself (RFC 9110 9.3.6): behind such a proxy there often is no other who knows them.
 */
int must_check image_proxy_rules(const char *text, const char *credentials, char rules[IMAGE_PROXY_TEXT], struct err *e);
