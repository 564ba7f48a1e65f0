#include "sudo/sudo.h"

/* `sudo` of sandboxes: see sudo/sudo.h. */
int main(int argc, char **argv, char **env) { return sudo_main(argc, argv, env); }
