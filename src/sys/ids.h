#pragma once
/* Who we are to this host. */
#include <stdbool.h>

/*
 * True for uid 0 that really is the host's root, or as good: its user namespace maps the ids that
 * sandboxes get their ranges from. Root of a namespace with few ids (rootless containers, unshare -r) is
 * an ordinary user to brig. Read once (/proc/self/uid_map, user_namespaces(7)).
 */
bool ids_host_root(void);
