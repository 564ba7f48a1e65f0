/*
 * brig-spawn: see src/spawnd. Started by the system as root, by an ordinary user for himself, or by `brigd --dev` with one
 * end of a socketpair. What it says goes to stderr, a line each.
 */
#include "base/cleanup.h"
#include "base/units.h"
#include "spawnd/spawnd.h"
#include "sys/file.h"
#include "sys/ids.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

struct options {
	const char *config, *socket, *box;
	int fd;
	bool dev, check;
};

static const char usage[] =
    "usage: brig-spawn [--config FILE] [--socket PATH] [--box DIR] [--check]\n"
    "       brig-spawn --dev (--fd N | --socket PATH) [--box DIR]\n"
    "Start and end the sandboxes that brigd asks for. See brig-spawn(8).\n"
    "  --config FILE  the daemon's configuration (default /etc/brig/brigd.yaml)\n"
    "  --socket PATH  where to listen (default: 'spawn' of the configuration)\n"
    "  --box DIR      folder of the sandboxes' sockets (default /run/brig/box)\n"
    "  --dev          the built-in templates instead of a configuration\n"
    "  --fd N         serve this connection; its end ends brig-spawn and its sandboxes\n"
    "  --check        read the configuration and its profiles, and say what is wrong\n"
    "  --help, --version\n";

enum { OPT_CONFIG = 1, OPT_SOCKET, OPT_BOX, OPT_DEV, OPT_FD, OPT_CHECK, OPT_HELP, OPT_VERSION };
static const struct option long_options[] = {
    {"config", required_argument, NULL, OPT_CONFIG}, {"socket", required_argument, NULL, OPT_SOCKET},
    {"box", required_argument, NULL, OPT_BOX},	     {"dev", no_argument, NULL, OPT_DEV},
    {"fd", required_argument, NULL, OPT_FD},	     {"check", no_argument, NULL, OPT_CHECK},
    {"help", no_argument, NULL, OPT_HELP},	     {"version", no_argument, NULL, OPT_VERSION},
    {NULL, 0, NULL, 0}};

static int say(const struct err *e)
{
	fprintf(stderr, "brig-spawn: %s\n", e->msg);
	return 1;
}

/* 0, or the exit code + 1 when there is nothing more to do. */
static int read_options(int argc, char **argv, struct options *o)
{
	uint64_t fd = 0;
	int c;

	while ((c = getopt_long(argc, argv, "", long_options, NULL)) >= 0) {
		switch (c) {
		case OPT_CONFIG:
			o->config = optarg;
			break;
		case OPT_SOCKET:
			o->socket = optarg;
			break;
		case OPT_BOX:
			o->box = optarg;
			break;
		case OPT_DEV:
			o->dev = true;
			break;
		case OPT_FD:
			if (units_count(optarg, 1023, &fd, NULL) < 0 || fd < 3) {
				fprintf(stderr, "brig-spawn: --fd: a descriptor from 3 to 1023\n");
				return 2;
			}
			o->fd = (int)fd;
			break;
		case OPT_CHECK:
			o->check = true;
			break;
		case OPT_HELP:
			fputs(usage, stdout);
			return 1;
		case OPT_VERSION:
			printf("brig-spawn %s\n", BRIG_VERSION);
			return 1;
		default:
			return 2;
		}
	}
	if (optind < argc || (o->dev && o->config != NULL)) {
		fputs(usage, stderr);
		return 2;
	}
	return 0;
}

static int load_config(const struct options *o, struct config *ret, struct err *e)
{
	static char text[CONFIG_MAX + 2];
	const char *path = o->config != NULL ? o->config : "/etc/brig/brigd.yaml";
	ssize_t n;

	if (o->dev)
		return config_dev("/nonexistent", o->socket != NULL ? o->socket : "/nonexistent", ret, e);
	n = file_get(AT_FDCWD, path, text, sizeof(text));
	if (n < 0)
		return err_set(e, ERR_NOT_FOUND, (int)-n, "%.150s: %s", path, strerror((int)-n));
	return config_load(path, text, (size_t)n, ret, e);
}

/* A template that cannot be used is the operator's to know now; the others are served all the same. */
static int check_templates(const struct config *c)
{
	int bad = 0;

	for (uint32_t i = 0; i < c->templates_n; i++) {
		struct spec spec;
		struct err e = ERR_INIT;

		if (spawnd_spec(&c->templates[i], NULL, NULL, &spec, &e) < 0) {
			fprintf(stderr, "brig-spawn: template %s: %s\n", c->templates[i].name, e.msg);
			bad++;
		}
		spec_done(&spec);
	}
	return bad;
}

static int client_uid(const struct config *c, uid_t *ret, struct err *e)
{
	struct passwd entry, *pw = NULL;
	char text[4096];
	uint64_t id = 0;

	*ret = geteuid();
	if (c->user == NULL || !ids_host_root())
		return 0;
	if (units_count(c->user, UINT32_MAX - 1, &id, NULL) == 0) {
		*ret = (uid_t)id;
		return 0;
	}
	if (getpwnam_r(c->user, &entry, text, sizeof(text), &pw) != 0 || pw == NULL)
		return err_set(e, ERR_NOT_FOUND, ENOENT, "user: there is no user %s", c->user);
	*ret = pw->pw_uid;
	return 0;
}

/* A name that a dead brig-spawn left is taken over; whoever lives is told apart by the lock of the folder. */
static int listen_at(const char *path, uid_t client, int *ret_fd, struct err *e)
{
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	struct stat st;
	mode_t old;
	int r;

	if (strlen(path) >= sizeof(a.sun_path))
		return err_set(e, ERR_INVALID, ENAMETOOLONG, "%.100s: longer than a socket's name may be", path);
	memcpy(a.sun_path, path, strlen(path) + 1);
	if (lstat(path, &st) == 0 && S_ISSOCK(st.st_mode))
		(void)unlink(path);
	old = umask(0177);
	r = fd < 0 || bind(fd, (const struct sockaddr *)&a, sizeof(a)) < 0 ? -errno : 0;
	(void)umask(old);
	if (r == 0 && client != geteuid() && chown(path, client, (gid_t)-1) < 0)
		r = -errno;
	if (r == 0 && listen(fd, 16) < 0)
		r = -errno;
	if (r < 0)
		return err_set(e, ERR_DENIED, -r, "%.100s: %s", path, strerror(-r));
	*ret_fd = steal_fd(&fd);
	return 0;
}

static int serve(const struct options *o, const struct config *c, struct err *e)
{
	struct spawnd_args a = {.config = c, .listen_fd = -1, .conn_fd = o->fd, .box_fd = -1};
	const char *path = o->socket != NULL ? o->socket : o->fd < 0 ? c->spawn : NULL;
	_cleanup_close_ int lock_fd = -1;
	char box[512];
	int r = client_uid(c, &a.client_uid, e);

	if (r == 0)
		r = spawnd_box_folder(o->box, &a.box_fd, box, sizeof(box), e);
	if (r == 0)
		r = spawnd_lock(a.box_fd, &lock_fd, e);
	if (r == 0 && path != NULL)
		r = listen_at(path, a.client_uid, &a.listen_fd, e);
	a.box = box;
	if (r == 0 && o->fd >= 0 && (fcntl(o->fd, F_SETFD, FD_CLOEXEC) < 0 || fcntl(o->fd, F_SETFL, O_NONBLOCK) < 0))
		r = err_set(e, ERR_INVALID, errno, "--fd %d: %s", o->fd, strerror(errno));
	return r == 0 ? spawnd_main(&a, e) : r;
}

/* Descriptors 0 to 2 are there, whatever we were started with. */
static int open_standard(void)
{
	int fd = open("/dev/null", O_RDWR);

	while (fd >= 0 && fd < 3)
		fd = dup(fd);
	return fd < 0 ? -1 : close(fd);
}

int main(int argc, char **argv)
{
	struct options o = {.fd = -1};
	struct config c;
	struct err e = ERR_INIT;
	int r = open_standard() < 0 ? 2 : read_options(argc, argv, &o), bad;

	if (r > 0)
		return r - 1;
	if (load_config(&o, &c, &e) < 0)
		return say(&e);
	bad = check_templates(&c);
	if (!o.check && serve(&o, &c, &e) < 0)
		bad = say(&e);
	config_done(&c);
	return o.check || e.kind != ERR_NONE ? bad > 0 : 0;
}
