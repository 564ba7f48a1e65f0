/*
 * The daemon's program: its command line, its loop, its end. docs/man/brigd.8 describes it.
 *
 * brigd has no privileges: it starts sandboxes by asking brig-spawn, which reads the same configuration. With --dev it
 * starts a brig-spawn of its own, on a socket pair, and everything goes with it.
 */
#include "api/api.h"
#include "base/cleanup.h"
#include "base/units.h"
#include "core/config.h"
#include "daemon/daemon.h"
#include "daemon/key.h"
#include "sys/file.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

enum { EXIT_USAGE = 2, STOP_MS = 10000, SPAWN_FD = 3 };

static const char usage[] =
    "usage: brigd [--config FILE] [--check-config]\n"
    "       brigd --dev [--port N]\n"
    "       brigd [--config FILE | --state DIR] key create [--tenant T] [--name N] [--scopes S] [--expires TIME]\n"
    "       brigd [--config FILE | --state DIR] key list\n"
    "       brigd [--config FILE | --state DIR] key remove ID\n"
    "       brigd --version | --help\n"
    "\n"
    "  --config FILE   the configuration (default /etc/brig/brigd.yaml), see brigd.yaml(5)\n"
    "  --check-config  read it, say what is wrong, and exit\n"
    "  --dev           serve templates base and code-interpreter-v1 on 127.0.0.1, with a\n"
    "                  state folder and a key that are thrown away at the end\n"
    "  --port N        with --dev: the port (default 7080, 0 = a free one)\n"
    "  --state DIR     for key: the state folder, in place of the configuration's\n"
    "\n"
    "A key is shown once, when it is made. Scopes: read, write, metrics (default read,write).\n"
    "TIME is a duration such as 90m or 12h; without it the key does not expire.\n";

struct options {
	const char *config, *state, *tenant, *name, *scopes, *expires;
	unsigned port;
	bool check, dev;
};

struct life {
	struct source signals;
	bool stop;
};

static int complain(const struct err *e)
{
	(void)fprintf(stderr, "brigd: %s\n", e->msg);
	return 1;
}

static int read_config(const char *path, struct config *ret, struct err *e)
{
	_cleanup_free_ char *text = malloc(CONFIG_MAX + 1);
	ssize_t n;

	if (text == NULL)
		return err_no_memory(e);
	n = file_get(AT_FDCWD, path, text, CONFIG_MAX + 1);
	if (n < 0)
		return err_set(e, ERR_INVALID, (int)-n, "read %s: %s", path, strerror((int)-n));
	return config_load(path, text, (size_t)n, ret, e);
}

/* ---- keys ---- */

static void show_key(const struct store_key *k, void *arg)
{
	const char *word;
	size_t at = 0;
	bool first = true;

	(void)arg;
	printf("%s  %-16s %-16s ", k->id, k->tenant, k->name[0] != '\0' ? k->name : "-");
	while ((word = key_scope_word(k->scopes, &at)) != NULL) {
		printf("%s%s", first ? "" : ",", word);
		first = false;
	}
	if (k->expires_ms == 0)
		puts("  never expires");
	else
		printf("  %s\n", k->expires_ms <= daemon_now_ms() ? "expired" : "expires");
}

static int key_create(const struct options *o, struct store *s, const struct seal *seal, struct err *e)
{
	char key[KEY_SIZE];
	uint32_t scopes;
	uint64_t span_ms = 0;
	int r = key_scopes(o->scopes, &scopes, e);

	if (r == 0 && o->expires != NULL)
		r = units_duration(o->expires, &span_ms, e);
	if (r == 0)
		r = key_make(s, seal, o->tenant, o->name, scopes, daemon_now_ms(),
			     span_ms > 0 ? daemon_now_ms() + (int64_t)span_ms : 0, key, e);
	if (r == 0)
		puts(key);
	return r;
}

static int key_command(const struct options *o, char **words, int n, struct err *e)
{
	struct config c = {.state = NULL};
	_cleanup_close_ int dir_fd = -1;
	struct store *s = NULL;
	struct seal seal;
	const char *state = o->state;
	int r = state == NULL ? read_config(o->config, &c, e) : 0;

	if (r < 0)
		return r;
	state = state != NULL ? state : c.state;
	dir_fd = open(state, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	r = dir_fd < 0 ? err_set(e, ERR_DENIED, errno, "open the state folder %s: %s", state, strerror(errno)) : 0;
	if (r == 0)
		r = seal_open(dir_fd, &seal, e);
	if (r == 0)
		r = store_open(state, &s, e);
	if (r == 0 && n == 1 && strcmp(words[0], "create") == 0)
		r = key_create(o, s, &seal, e);
	else if (r == 0 && n == 1 && strcmp(words[0], "list") == 0)
		r = store_keys(s, show_key, NULL, e);
	else if (r == 0 && n == 2 && strcmp(words[0], "remove") == 0) {
		r = store_key_remove(s, words[1], e);
		if (r == -ENOENT)
			r = err_set(e, ERR_NOT_FOUND, ENOENT, "there is no key %.32s", words[1]);
	} else if (r == 0) {
		r = err_set(e, ERR_INVALID, EINVAL, "key: create, list or remove ID; see --help");
	}
	store_close(s);
	config_done(&c);
	return r;
}

/* ---- --dev ---- */

struct dev {
	char dir[32];
	pid_t spawn;
	int fd; /* ours of the pair */
};

static int dev_folder(struct dev *v, struct config *c, unsigned port, struct err *e)
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

static int dev_spawn(struct dev *v, struct err *e)
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

static int dev_hello(struct daemon *d, const struct api *a, struct config *c, struct err *e)
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

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at)
{
	(void)st;
	(void)kind;
	(void)at;
	(void)remove(path);
	return 0;
}

static void dev_done(struct dev *v)
{
	if (v->fd >= 0)
		(void)close(v->fd);
	if (v->spawn > 0) {
		(void)kill(v->spawn, SIGTERM);
		(void)waitpid(v->spawn, NULL, 0);
	}
	if (v->dir[0] != '\0')
		(void)nftw(v->dir, remove_one, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}

/* ---- serving ---- */

static void signalled(struct source *s, uint32_t events)
{
	struct life *l = (struct life *)s;
	struct signalfd_siginfo i;

	(void)events;
	while (read(s->fd, &i, sizeof(i)) == (ssize_t)sizeof(i))
		l->stop = true;
}

static void kill_all(struct daemon *d)
{
	struct box *b, *next;

	for (b = box_next(&d->boxes, NULL); b != NULL; b = next) {
		next = box_next(&d->boxes, b);
		life_end_unknown(d, b->id);
	}
}

static void turn(struct daemon *d, struct api *a)
{
	int clock_ms = daemon_tick(d), http_ms = api_turn(a);

	loop_turn(&d->loop, http_ms >= 0 && http_ms < clock_ms ? http_ms : clock_ms);
}

static int serve(struct daemon *d, struct api *a, bool dev, struct err *e)
{
	struct life l = {.signals = {.ready = signalled, .fd = -1}};
	sigset_t set;
	uint64_t until;
	int r;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	(void)sigprocmask(SIG_BLOCK, &set, NULL);
	l.signals.fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	r = l.signals.fd < 0 ? -errno : loop_watch(&d->loop, &l.signals);
	if (r < 0)
		return err_set(e, ERR_INTERNAL, -r, "watch for signals");
	while (!l.stop)
		turn(d, a);
	daemon_quiesce(d);
	api_quiesce(a);
	if (dev)
		kill_all(d);
	l.stop = false;
	until = loop_clock_ms() + STOP_MS;
	while (!l.stop && loop_clock_ms() < until && (daemon_busy(d) || (dev ? d->boxes.n > 0 : api_requests(a) > 0)))
		turn(d, a);
	loop_drop(&l.signals);
	return 0;
}

static void ready(const struct config *c, const struct api *a)
{
	if (api_port(a) != 0)
		printf("brigd: listening on %.*s:%u\n", (int)(strrchr(c->listen, ':') - c->listen), c->listen,
		       api_port(a));
	else
		printf("brigd: listening on %s\n", c->listen);
	(void)fflush(stdout);
}

static int run(const struct options *o, struct err *e)
{
	struct config c = {.state = NULL};
	struct dev v = {.fd = -1};
	struct daemon d = {.loop = {.epoll_fd = -1}, .spawner = {.src = {.fd = -1}}};
	struct sigaction ignore = {.sa_handler = SIG_IGN};
	struct api *a = NULL;
	bool opened = false;
	int r = o->dev ? dev_folder(&v, &c, o->port, e) : read_config(o->config, &c, e);

	if (r == 0 && o->check) {
		printf("%s: %u templates, fine\n", o->config, c.templates_n);
		config_done(&c);
		return 0;
	}
	(void)sigaction(SIGPIPE, &ignore, NULL);
	if (r == 0 && o->dev)
		r = dev_spawn(&v, e);
	if (r == 0) {
		opened = true;
		r = daemon_open(&d, &c, e);
	}
	if (r == 0 && o->dev) {
		d.spawner.path = NULL; /* it is not started a second time */
		r = spawner_take(&d.spawner, steal_fd(&v.fd));
		if (r == 0)
			recover_hello(&d);
	}
	if (r == 0)
		r = api_open(&d, &a, e);
	if (r == 0 && o->dev)
		r = dev_hello(&d, a, &c, e);
	else if (r == 0)
		ready(&c, a);
	if (r == 0)
		r = serve(&d, a, o->dev, e);
	api_close(a);
	if (opened)
		daemon_close(&d);
	dev_done(&v);
	config_done(&c);
	return r;
}

int main(int argc, char **argv)
{
	static const struct option longs[] = {{"config", required_argument, NULL, 'c'},
					      {"check-config", no_argument, NULL, 'k'},
					      {"dev", no_argument, NULL, 'd'},
					      {"port", required_argument, NULL, 'p'},
					      {"state", required_argument, NULL, 's'},
					      {"tenant", required_argument, NULL, 't'},
					      {"name", required_argument, NULL, 'n'},
					      {"scopes", required_argument, NULL, 'o'},
					      {"expires", required_argument, NULL, 'e'},
					      {"version", no_argument, NULL, 'v'},
					      {"help", no_argument, NULL, 'h'},
					      {NULL, 0, NULL, 0}};
	struct options o = {.config = "/etc/brig/brigd.yaml", .tenant = "default", .name = "", .scopes = "read,write",
			    .port = 7080};
	struct err e = ERR_INIT;
	char *end;
	int opt, r;

	while ((opt = getopt_long(argc, argv, "", longs, NULL)) != -1) {
		switch (opt) {
		case 'c': o.config = optarg; break;
		case 'k': o.check = true; break;
		case 'd': o.dev = true; break;
		case 'p':
			o.port = (unsigned)strtoul(optarg, &end, 10);
			if (*end != '\0' || optarg[0] < '0' || optarg[0] > '9' || o.port > 65535) {
				(void)fputs("brigd: --port: 0 to 65535\n", stderr);
				return EXIT_USAGE;
			}
			break;
		case 's': o.state = optarg; break;
		case 't': o.tenant = optarg; break;
		case 'n': o.name = optarg; break;
		case 'o': o.scopes = optarg; break;
		case 'e': o.expires = optarg; break;
		case 'v': puts("brigd " BRIG_VERSION); return 0;
		case 'h': (void)fputs(usage, stdout); return 0;
		default: (void)fputs(usage, stderr); return EXIT_USAGE;
		}
	}
	argc -= optind;
	argv += optind;
	if (argc > 1 && strcmp(argv[0], "key") == 0)
		r = key_command(&o, argv + 1, argc - 1, &e);
	else if (argc > 0)
		r = err_set(&e, ERR_INVALID, EINVAL, "unknown word '%.32s'; see --help", argv[0]);
	else
		r = run(&o, &e);
	return r < 0 ? complain(&e) : 0;
}
