/*
 * The daemon's program: its command line, its loop, its end. docs/man/brigd.8 describes it.
 *
 * brigd has no privileges: it starts sandboxes by asking brig-spawn, which reads the same configuration. With --dev it
 * starts a brig-spawn of its own, on a socket pair, and everything goes with it.
 */
#include "api/api.h"
#include "api/dev.h"
#include "base/cleanup.h"
#include "core/config.h"
#include "daemon/daemon.h"
#include "daemon/key.h"
#include "sys/file.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>

enum { EXIT_USAGE = 2, STOP_MS = 10000 };

static const char usage[] =
    "usage: brigd [--config FILE] [--check-config]\n"
    "       brigd --dev [--port N] [--pool N]\n"
    "       brigd [--config FILE | --state DIR] key create [--tenant T] [--name N] [--scopes S] [--expires TIME]\n"
    "       brigd [--config FILE | --state DIR] key list [--json]\n"
    "       brigd [--config FILE | --state DIR] key remove ID\n"
    "       brigd --version | --help\n"
    "\n"
    "  --config FILE   the configuration (default /etc/brig/brigd.yaml), see brigd.yaml(5)\n"
    "  --check-config  read it, say what is wrong, and exit\n"
    "  --dev           serve templates base and code-interpreter-v1 on 127.0.0.1, with a\n"
    "                  state folder and a key that are thrown away at the end\n"
    "  --port N        with --dev: the port (default 7080, 0 = a free one)\n"
    "  --pool N        with --dev: so many sandboxes of each template are kept ready (default 0)\n"
    "  --state DIR     for key: the state folder, in place of the configuration's\n"
    "\n"
    "A key is shown once, when it is made. Scopes: read, write, metrics (default read,write).\n"
    "TIME is a duration such as 90m or 12h; without it the key does not expire.\n";

struct options {
	const char *config, *state;
	struct key_words key;
	unsigned port, pool;
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

/* The keys of the state folder that is named, else of the configuration's. */
static int keys(const struct options *o, char **words, int n, struct err *e)
{
	struct config c = {.state = NULL};
	int r = o->state == NULL ? read_config(o->config, &c, e) : 0;

	if (r == 0)
		r = key_command(o->state != NULL ? o->state : c.state, &o->key, words, n, e);
	config_done(&c);
	return r;
}

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
	struct dev v = DEV_INIT;
	struct daemon d = {.loop = {.epoll_fd = -1}, .spawner = {.src = {.fd = -1}}};
	struct sigaction ignore = {.sa_handler = SIG_IGN};
	struct api *a = NULL;
	bool opened = false;
	int r = o->dev ? dev_folder(&v, &c, (uint16_t)o->port, o->pool, e) : read_config(o->config, &c, e);

	if (r == 0 && o->check)
		r = api_check(&c, e);
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

static bool number(const char *text, unsigned long most, unsigned *ret)
{
	char *end;
	unsigned long n = strtoul(text, &end, 10);

	*ret = (unsigned)n;
	return *end == '\0' && text[0] >= '0' && text[0] <= '9' && n <= most;
}

int main(int argc, char **argv)
{
	static const struct option longs[] = {{"config", required_argument, NULL, 'c'},
					      {"check-config", no_argument, NULL, 'k'},
					      {"dev", no_argument, NULL, 'd'},
					      {"port", required_argument, NULL, 'p'},
					      {"pool", required_argument, NULL, 'l'},
					      {"state", required_argument, NULL, 's'},
					      {"tenant", required_argument, NULL, 't'},
					      {"name", required_argument, NULL, 'n'},
					      {"scopes", required_argument, NULL, 'o'},
					      {"expires", required_argument, NULL, 'e'},
					      {"json", no_argument, NULL, 'j'},
					      {"version", no_argument, NULL, 'v'},
					      {"help", no_argument, NULL, 'h'},
					      {NULL, 0, NULL, 0}};
	struct options o = {.config = "/etc/brig/brigd.yaml", .port = 7080,
			    .key = {.tenant = "default", .name = "", .scopes = "read,write"}};
	struct err e = ERR_INIT;
	int opt, r;

	while ((opt = getopt_long(argc, argv, "", longs, NULL)) != -1) {
		switch (opt) {
		case 'c': o.config = optarg; break;
		case 'k': o.check = true; break;
		case 'd': o.dev = true; break;
		case 'p':
			if (!number(optarg, 65535, &o.port)) {
				(void)fputs("brigd: --port: 0 to 65535\n", stderr);
				return EXIT_USAGE;
			}
			break;
		case 'l':
			if (!number(optarg, CONFIG_POOL_MAX, &o.pool)) {
				(void)fprintf(stderr, "brigd: --pool: 0 to %d\n", CONFIG_POOL_MAX);
				return EXIT_USAGE;
			}
			break;
		case 's': o.state = optarg; break;
		case 't': o.key.tenant = optarg; break;
		case 'n': o.key.name = optarg; break;
		case 'o': o.key.scopes = optarg; break;
		case 'e': o.key.expires = optarg; break;
		case 'j': o.key.json = true; break;
		case 'v': puts("brigd " BRIG_VERSION); return 0;
		case 'h': (void)fputs(usage, stdout); return 0;
		default: (void)fputs(usage, stderr); return EXIT_USAGE;
		}
	}
	argc -= optind;
	argv += optind;
	if (argc > 1 && strcmp(argv[0], "key") == 0)
		r = keys(&o, argv + 1, argc - 1, &e);
	else if (argc > 0)
		r = err_set(&e, ERR_INVALID, EINVAL, "unknown word '%.32s'; see --help", argv[0]);
	else
		r = run(&o, &e);
	return r < 0 ? complain(&e) : 0;
}
