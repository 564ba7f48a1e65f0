#pragma once
/*
 * musl gives the pages of blocks of one size back with the last of them, and fetches them again for the next: two system calls
 * and a page fault, several times for each request that comes while nothing else goes on.
 */

/* Let blocks of the usual sizes stay until the process ends, with room for as many beside them: some 40 KiB. Once. */
void heap_settle(void);
