/* See dev.h. */
#include "api/dev.h"

#include "daemon/key.h"
#include "sys/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

enum { SPAWN_FD = 3 };

int dev_folder(struct dev *v, struct config *c, uint16_t port, uint32_t pool, struct err *e)
{
	char state[64], spawn[64], listen[32];
	int r;

	(void)strcpy(v->dir, "/tmp/brigd-dev-XXXXXX");
	if (mkdtemp(v->dir) == NULL) {
		v->dir[0] = '\0';
		return err_set(e, ERR_DENIED, errno, "make a folder in /tmp");
	}
	(void)snprintf(state, sizeof(state), "%s/state", v->dir);
	(void)snprintf(spawn, sizeof(spawn), "%s/spawn.sock", v->dir);
	r = config_dev(state, spawn, c, e);
	if (r < 0)
		return r;
	for (uint32_t i = 0; i < c->templates_n; i++)
		c->templates[i].pool = pool;
	(void)snprintf(listen, sizeof(listen), "127.0.0.1:%u", port);
	free(c->listen);
	c->listen = strdup(listen);
	return c->listen == NULL ? err_no_memory(e) : 0;
}

/* brig-spawn beside us, else where it is installed. */
static void dev_exec(const struct dev *v, int fd)
{
	char self[4096], path[4200], box[64];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	char *slash;

	self[n > 0 ? n : 0] = '\0';
	slash = strrchr(self, '/');
	if (slash != NULL)
		*slash = '\0';
	(void)prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (fd != SPAWN_FD ? dup2(fd, SPAWN_FD) < 0 : fcntl(fd, F_SETFD, 0) < 0) /* without close-on-exec */
		_exit(127);
	(void)snprintf(path, sizeof(path), "%s/brig-spawn", self);
	(void)snprintf(box, sizeof(box), "%s/box", v->dir);
	(void)execl(path, "brig-spawn", "--dev", "--fd", "3", "--box", box, (char *)NULL);
	(void)execl(BRIG_LIBEXECDIR "/brig-spawn", "brig-spawn", "--dev", "--fd", "3", "--box", box, (char *)NULL);
	(void)fprintf(stderr, "brigd: brig-spawn: %s\n", strerror(errno));
	_exit(127);
}

int dev_spawn(struct dev *v, struct err *e)
{
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return err_set(e, ERR_INTERNAL, errno, "make a socket pair");
	v->spawn = fork();
	if (v->spawn == 0)
		dev_exec(v, pair[1]);
	(void)close(pair[1]);
	v->fd = pair[0];
	return v->spawn < 0 ? err_set(e, ERR_INTERNAL, errno, "start brig-spawn") : 0;
}

int dev_hello(struct daemon *d, const struct api *a, struct config *c, struct err *e)
{
	char key[KEY_SIZE], domain[32];
	int r;

	(void)snprintf(domain, sizeof(domain), "localhost:%u", api_port(a));
	free(c->domain);
	c->domain = strdup(domain);
	if (c->domain == NULL)
		return err_no_memory(e);
	r = key_make(d->store, &d->seal, "dev", "dev", SCOPE_READ | SCOPE_WRITE | SCOPE_METRICS, daemon_now_ms(), 0,
		     key, e);
	if (r < 0)
		return r;
	printf("export E2B_API_KEY=%s\nexport E2B_API_URL=http://127.0.0.1:%u\nexport E2B_SANDBOX_URL=http://127.0.0.1:%u\n",
	       key, api_port(a), api_port(a));
	(void)fflush(stdout);
	return 0;
}

void dev_done(struct dev *v)
{
	if (v->fd >= 0)
		(void)close(v->fd);
	if (v->spawn > 0) {
		(void)kill(v->spawn, SIGTERM);
		(void)waitpid(v->spawn, NULL, 0);
	}
	if (v->dir[0] != '\0')
		(void)!tree_remove(AT_FDCWD, v->dir);
}
