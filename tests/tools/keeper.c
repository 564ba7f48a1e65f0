/*
 * keeper: a sandbox and its keeper on a socket, for the suites of src/keep. Starts what the daemon
 * starts, without the daemon and without a jail; says "ready" and serves until the sandbox ends.
 *
 *   keeper SOCKET END-FILE [NAME=VALUE...]
 *     interp=FILE
 *     image=PATH user=NAME workdir=PATH memory=BYTES disk=BYTES pids=N timeout_ms=N env=NAME=VALUE
 */
#include "base/cleanup.h"
#include "core/spec.h"
#include "keep/keep.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static int listen_at(const char *path)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0 || strlen(path) >= sizeof(a.sun_path))
		return -1;
	memcpy(a.sun_path, path, strlen(path) + 1);
	if (bind(fd, (struct sockaddr *)&a, sizeof(a)) < 0 || listen(fd, 64) < 0)
		return -1;
	return fd;
}

static void text(char **at, const char *value)
{
	free(*at);
	*at = strdup(value);
}

static bool option(struct spec *s, const char *name, const char *value)
{
	if (strcmp(name, "image") == 0)
		text(&s->image, value);
	else if (strcmp(name, "user") == 0)
		text(&s->user, value);
	else if (strcmp(name, "workdir") == 0)
		text(&s->workdir, value);
	else if (strcmp(name, "tier") == 0)
		text(&s->tier, value);
	else if (strcmp(name, "memory") == 0)
		s->memory = strtoull(value, NULL, 10);
	else if (strcmp(name, "disk") == 0)
		s->disk = strtoull(value, NULL, 10);
	else if (strcmp(name, "pids") == 0)
		s->pids = (uint32_t)strtoul(value, NULL, 10);
	else if (strcmp(name, "timeout_ms") == 0)
		s->timeout_ms = strtoull(value, NULL, 10);
	else if (strcmp(name, "env") == 0)
		return strv_add(&s->env, value) == 0;
	else
		return false;
	return true;
}

int main(int argc, char **argv)
{
	struct spec s;
	struct err e = ERR_INIT;
	struct keep_args a = {.spec = &s, .template = "base", .interp_fd = -1, .client_uid = getuid()};
	int r;

	spec_init(&s);
	spec_new_id(&s);
	text(&s.image, "host");
	if (argc < 3)
		return 2;
	for (int i = 3; i < argc; i++) {
		char *value = strchr(argv[i], '=');

		if (value == NULL)
			return 2;
		*value++ = '\0';
		if (strcmp(argv[i], "interp") == 0)
			a.interp_fd = open(value, O_RDONLY | O_CLOEXEC);
		else if (!option(&s, argv[i], value))
			return 2;
	}
	spec_fit_disk(&s);
	a.listen_fd = listen_at(argv[1]);
	a.end_fd = open(argv[2], O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	if (a.listen_fd < 0 || a.end_fd < 0)
		return 2;
	r = runner_new(&s, false, &a.runner, &e);
	if (r == 0)
		r = runner_start(a.runner, &e);
	if (r == 0)
		r = runner_hold(a.runner, &e);
	if (r < 0) {
		printf("%s\n", e.msg);
		return 1;
	}
	printf("ready\n");
	(void)fflush(stdout);
	r = keep_main(&a);
	spec_done(&s);
	return r;
}
