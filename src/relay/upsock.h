#pragma once
/*
 * Sockets to dial with. One of each family that is used is made ahead, while nobody waits: making it would be on the way of
 * each connection's first byte.
 */
#include <stdbool.h>

/* A socket of this family (AF_INET, AF_INET6), not connected, the caller's. Or -errno. */
int __attribute__((warn_unused_result)) upsock_take(int family);
/* Is one to be made? */
bool upsock_wanted(void);
/* Make them. What cannot be had now is made when it is taken. */
void upsock_make(void);
