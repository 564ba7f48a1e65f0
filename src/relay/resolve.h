#pragma once
/* Names asked of real resolvers, by c-ares, within the event loop. Its answers are hostile: whoever made
 * them may be an enemy of this host, so every address is judged before it is used (gate/). */
#include "gate/judge.h"
#include "sys/loop.h"

#include <netinet/in.h>
#include <stddef.h>
#include <stdint.h>

struct resolver; /* one per sandbox: no cache, nothing shared between sandboxes */

typedef void (*resolve_fn)(void *arg, const struct resolve_result *r);

/* servers: comma-separated IP[:port] or [IPv6]:port. 0, -EINVAL, -ENOMEM. */
int must_check resolver_new(struct loop *l, const char *servers, struct resolver **ret);
/* Unanswered questions get their function called with ECANCELED. */
void resolver_free(struct resolver *r);
/* fn may be called before this returns. One question for each address family, nothing cached. */
void resolver_ask(struct resolver *r, const char *name, resolve_fn fn, void *arg);
/* Milliseconds until resolver_tick has something to do; -1 = nothing waits. */
int resolver_wait(struct resolver *r);
void resolver_tick(struct resolver *r);
