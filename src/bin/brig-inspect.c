/* The program that reads HTTP: see src/inspect/control.c. Started by brig with its two sockets as descriptors 3 and 4. */
#include "inspect/inspect.h"
#include "wire/inspect.h"

int main(void) { return inspect_main(INSPECT_CTL_FD, INSPECT_PEER_FD); }
