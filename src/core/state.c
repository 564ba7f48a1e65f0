#include "core/state.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int state_make_dir(const char *path, struct err *e)
{
	char part[512];
	size_t n = strlen(path);

	if (n >= sizeof(part))
		return err_set(e, ERR_INVALID, ENAMETOOLONG, "state folder: name too long");
	for (size_t i = 1; i <= n; i++) {
		if (path[i] != '/' && path[i] != '\0')
			continue;
		memcpy(part, path, i);
		part[i] = '\0';
		if (mkdir(part, i == n ? 0700 : 0755) < 0 && errno != EEXIST)
			return err_set(e, ERR_DENIED, errno,
				       "state folder '%s': %s (set BRIG_STATE to a folder you own)",
				       path, strerror(errno));
	}
	return 0;
}

int state_dir(char *dst, size_t size, struct err *e)
{
	const char *env = getenv("BRIG_STATE"), *home;
	int n;

	if (env != NULL && env[0] != '\0') {
		n = snprintf(dst, size, "%s", env);
	} else if (geteuid() == 0) {
		n = snprintf(dst, size, "/var/lib/brig");
	} else if ((env = getenv("XDG_STATE_HOME")) != NULL && env[0] == '/') {
		n = snprintf(dst, size, "%s/brig", env);
	} else {
		home = getenv("HOME");
		if (home == NULL || home[0] != '/')
			return err_set(
			    e, ERR_INVALID, ENOENT,
			    "no state folder: set BRIG_STATE (or HOME) to an absolute path");
		n = snprintf(dst, size, "%s/.local/state/brig", home);
	}
	if (n < 0 || (size_t)n >= size || dst[0] != '/')
		return err_set(e, ERR_INVALID, EINVAL,
			       "BRIG_STATE must be an absolute path of usual length");
	return 0;
}
