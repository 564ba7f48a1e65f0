#include "sys/ids.h"

#include "sys/file.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The ranges are the 2^28 ids below 2^31 (spawn/record.h). */
#define RANGES_FIRST 0x70000000ull
#define RANGES_END   0x80000000ull

static bool maps_ranges(void)
{
	char text[4096], *line, *save = NULL;
	unsigned long long inside, outside, count;

	if (file_get(AT_FDCWD, "/proc/self/uid_map", text, sizeof(text)) <= 0)
		return false;
	for (line = strtok_r(text, "\n", &save); line != NULL; line = strtok_r(NULL, "\n", &save))
		if (sscanf(line, "%llu %llu %llu", &inside, &outside, &count) == 3 &&
		    inside <= RANGES_FIRST && count >= RANGES_END - inside)
			return true;
	return false;
}

bool ids_host_root(void)
{
	static int known = -1;

	if (known < 0)
		known = geteuid() == 0 && maps_ranges();
	return known != 0;
}
