/*
 * CVE-2024-21626: starts in a folder the runtime left open, named as /proc/self/fd/N, and walks up.
 *
 * group: descriptors
 * tries: start with --workdir /proc/self/fd/N on a host folder that was left open, and walk up from there
 * control: plain
 * leak: dir
 * workdir: leak
 * brig-refuses: yes
 * shows: canary-read
 */
#include "attack.h"

int main(int argc, char **argv)
{
	char path[400];

	(void)argc;
	tried_read("here", AT_FDCWD, "canary");
	(void)snprintf(path, sizeof(path), "../../../../../..%s", param(argv, "canary"));
	tried_read("above", AT_FDCWD, path);
	return ended();
}
