#include "guest/program.h"

#include "base/num.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

/* Fed by the request: strings of any content, their lengths checked when it was read (guest/ask.h). */

static const char default_path[] = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

static bool has_env(char *const *env, const char *name)
{
	size_t n = strlen(name);

	for (; *env != NULL; env++) {
		if (strncmp(*env, name, n) == 0 && (*env)[n] == '=')
			return true;
	}
	return false;
}

char **program_env(const struct ask *q, const struct user *u, char *const *more)
{
	enum { SPARE = 6 + PROGRAM_ENV_MORE };
	static char made[4][16 + USER_STR_MAX];
	static char path[sizeof(default_path)], term[] = "TERM=xterm";
	const struct {
		const char *name, *value;
	} all[] = {{"HOME", u->home}, {"USER", u->name}, {"LOGNAME", u->name}, {"SHELL", u->shell}};
	char **env = ask_args(q, F_ENV, SPARE);
	uint32_t n = q->envc;

	if (env == NULL)
		return NULL;
	for (; more != NULL && *more != NULL; more++)
		env[n++] = *more;
	env[n] = NULL;
	for (size_t i = 0; i < ARRAY_LEN(all); i++) {
		size_t k = strlen(all[i].name), m = strlen(all[i].value);

		if (m == 0 || has_env(env, all[i].name) || k + 1 + m >= sizeof(made[i]))
			continue;
		memcpy(made[i], all[i].name, k);
		made[i][k] = '=';
		memcpy(made[i] + k + 1, all[i].value, m + 1);
		env[n++] = made[i];
		env[n] = NULL;
	}
	if (!has_env(env, "PATH")) {
		memcpy(path, default_path, sizeof(path));
		env[n++] = path;
		env[n] = NULL;
	}
	if ((q->flags & REQ_TTY) && !has_env(env, "TERM")) {
		env[n++] = term;
		env[n] = NULL;
	}
	return env;
}

static const char *path_of(char *const *env)
{
	for (; *env != NULL; env++) {
		if (strncmp(*env, "PATH=", 5) == 0)
			return *env + 5;
	}
	return "";
}

int program_run(char **argv, char **env)
{
	const char *name = argv[0], *dir = path_of(env);
	size_t len = strlen(name);
	char file[PATH_MAX];
	int err = ENOENT;

	if (len == 0)
		return ENOENT;
	if (strchr(name, '/') != NULL) {
		(void)execve(name, argv, env);
		return errno;
	}
	for (;;) {
		size_t n = strcspn(dir, ":");

		if (n + 1 + len < sizeof(file)) {
			char *end = mempcpy(file, dir, n);

			if (n > 0)
				*end++ = '/';
			memcpy(end, name, len + 1);
			(void)execve(file, argv, env);
			if (errno == EACCES)
				err = EACCES;
			else if (errno != ENOENT && errno != ENOTDIR)
				return errno;
		}
		if (dir[n] == '\0')
			return err;
		dir += n + 1;
	}
}
