#include "daemon/daemon.h"
#include "daemon/denials.h"

#include "base/cleanup.h"
#include "base/num.h"
#include "core/profile.h"
#include "core/state.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* The clock part: reconnecting, pools, ends that are pauses, old records. */

enum { TICK_MS = 1000, RETRY_MS = 1000, PURGE_EVERY_MS = 3600 * 1000 };
#define KEEP_ENDED_MS (INT64_C(7) * 24 * 3600 * 1000)

const uint32_t stats_bucket_ms[STATS_BUCKETS] = {1, 2, 5, 10, 20, 35, 50, 75, 100, 200, 500, 1000, 2000, 5000};

void stats_start(struct stats *s, bool warm, uint64_t us)
{
	struct stats_starts *t = &s->start[warm];
	uint32_t i = 0;

	while (i < STATS_BUCKETS && us > (uint64_t)stats_bucket_ms[i] * 1000)
		i++;
	t->bucket[i]++;
	t->us_sum += us;
	t->n++;
}

int64_t daemon_now_ms(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_REALTIME, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

void daemon_say(const char *fmt, ...)
{
	char line[512];
	int n = (int)strlen(strcpy(line, "brigd: "));
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(line + n, sizeof(line) - (size_t)n - 1, fmt, ap);
	va_end(ap);
	n = (int)strlen(line);
	line[n++] = '\n';
	if (write(STDERR_FILENO, line, (size_t)n) < 0)
		return;
}

uint32_t daemon_template_index(const struct daemon *d, const struct config_template *t)
{
	return (uint32_t)(t - d->config->templates);
}

int daemon_socket(const struct daemon *d, const struct box *b, char *dst, size_t size)
{
	int n;

	if (d->folder[0] == '\0')
		return -EAGAIN;
	n = snprintf(dst, size, "%s/%s.sock", d->folder, b->id);
	return n < 0 || (size_t)n >= size ? -ENAMETOOLONG : 0;
}

/* What the profile says a sandbox has. brig-spawn reads it again, and is the one who matters. */
static int read_figures(struct daemon *d, uint32_t i, struct err *e)
{
	const struct config_template *t = &d->config->templates[i];
	_cleanup_free_ char *text = NULL;
	_cleanup_close_ int fd = -1;
	struct profile p = {.name = NULL};
	struct spec s;
	ssize_t n = 0;
	int r = 0;

	spec_init(&s);
	if (t->profile != NULL) {
		fd = open(t->profile, O_RDONLY | O_CLOEXEC | O_NOCTTY);
		text = malloc(PROFILE_MAX + 1);
		if (text == NULL)
			r = err_no_memory(e);
		else if (fd < 0 || (n = read(fd, text, PROFILE_MAX + 1)) < 0)
			r = err_set(e, ERR_INVALID, errno, "profile %s of template %s", t->profile, t->name);
		else
			r = profile_load(t->profile, text, (size_t)n, &s, &p, e);
	}
	if (r == 0)
		d->figures[i] = (struct figures){.cpu_count = MAX((s.cpu_milli + 999) / 1000, 1u),
						 .memory_mb = s.memory >> 20, .disk_mb = s.disk >> 20};
	profile_done(&p);
	spec_done(&s);
	return r;
}

static int load(struct daemon *d, struct err *e)
{
	struct box *b, *next;
	int r = store_boxes(d->store, &d->boxes, e);

	for (b = box_next(&d->boxes, NULL); r == 0 && b != NULL; b = next) {
		next = box_next(&d->boxes, b);
		if (b->state == BOX_RUNNING || b->state == BOX_PAUSED)
			continue;
		r = store_box_forget(d->store, b->id, e); /* it was given to nobody */
		box_drop(&d->boxes, b);
	}
	return r;
}

int daemon_open(struct daemon *d, const struct config *config, struct err *e)
{
	_cleanup_close_ int dir_fd = -1;
	int r;

	*d = (struct daemon){.config = config, .loop = {.epoll_fd = -1}, .spawner = {.src = {.fd = -1}}};
	r = loop_open(&d->loop);
	if (r < 0)
		return err_set(e, ERR_INTERNAL, -r, "make an event loop");
	if (box_table_open(&d->boxes) < 0)
		return err_no_memory(e);
	recover_wire(d);
	r = state_make_dir(config->state, e);
	if (r < 0)
		return r;
	dir_fd = open(config->state, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir_fd < 0)
		return err_set(e, ERR_DENIED, errno, "open the state folder %s", config->state);
	r = seal_open(dir_fd, &d->seal, e);
	if (r == 0)
		r = store_open(config->state, &d->store, e);
	if (r == 0)
		r = load(d, e);
	for (uint32_t i = 0; r == 0 && i < config->templates_n; i++) {
		d->pool[i] = (struct pool){.want = (config->templates[i].pool + 1) / 2, .used_ms = d->loop.now_ms};
		r = read_figures(d, i, e);
	}
	return r;
}

void daemon_close(struct daemon *d)
{
	ask_json_close(&d->asks);
	spawner_close(&d->spawner);
	life_drop_all(d);
	denials_close(d);
	box_table_close(&d->boxes);
	store_close(d->store);
	loop_close(&d->loop);
	seal_close(&d->seal);
}

void daemon_quiesce(struct daemon *d)
{
	d->stopping = true;
	while (pool_give_up(d))
		;
}

bool daemon_busy(const struct daemon *d) { return d->ops != NULL || d->spawner.first != NULL; }

static void nobody(void *owner, struct box *b, unsigned status, const char *why)
{
	(void)owner;
	(void)b;
	if (status != 0 && status != 409)
		daemon_say("pause at the end of a life span: %s", why);
}

static void pause_who_is_due(struct daemon *d)
{
	int64_t now = daemon_now_ms();

	for (struct box *b = box_next(&d->boxes, NULL); b != NULL; b = box_next(&d->boxes, b))
		if (b->pause_at_end && b->state == BOX_RUNNING && b->ends_ms != 0 && b->ends_ms <= now && !b->pausing)
			life_pause(d, b, nobody, NULL);
}

int daemon_tick(struct daemon *d)
{
	uint64_t now = loop_clock_ms();
	struct err e = ERR_INIT;
	int wait;

	if (!spawner_up(&d->spawner) && now >= d->retry_ms && !d->stopping) {
		d->retry_ms = now + RETRY_MS;
		if (spawner_connect(&d->spawner) == 0)
			recover_hello(d);
	}
	pool_tick(d);
	if (now - d->tick_ms >= TICK_MS) {
		d->tick_ms = now;
		ask_json_tick(&d->asks, now);
		pause_who_is_due(d);
	}
	if (now >= d->purge_ms) {
		d->purge_ms = now + PURGE_EVERY_MS;
		if (store_purge(d->store, daemon_now_ms() - KEEP_ENDED_MS, &e) < 0)
			daemon_say("%s", e.msg);
	}
	wait = pool_wait(d);
	return wait < 0 ? TICK_MS : wait;
}
