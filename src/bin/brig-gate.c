/* The gate's program: see src/relay/control.c. Started by brig with its control socket as descriptor 3. */
#include "relay/relay.h"
#include "wire/gate.h"

int main(void) { return relay_main(GATE_CTL_FD); }
