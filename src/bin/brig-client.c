/* The program behind brig's commands that talk to a daemon: everything is in src/client. */
#include "client/client.h"

int main(int argc, char **argv) { return client_main(argc, argv); }
