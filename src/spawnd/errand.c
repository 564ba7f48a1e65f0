#include "spawnd/priv.h"

#include "base/cleanup.h"
#include "egress/egress.h"
#include "spawn/door.h"
#include "wire/door.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/*
 * Other rules for a running sandbox: made as for a start, then given to its keeper through the door of its gate
 * (spawn/door.h). That waits for gate and kernel, so a child does it.
 */

static void drop(struct errand *d)
{
	struct errand **p = &d->s->errands;

	while (*p != d)
		p = &(*p)->next;
	*p = d->next;
	d->s->errands_n--;
	loop_drop(&d->report);
	(void)waitpid(d->pid, NULL, 0); /* it has closed its pipe: its last act */
	loop_free_later(&d->s->loop, d);
}

static void on_report(struct source *src, uint32_t events)
{
	struct errand *d = (struct errand *)(void *)src;
	struct outcome o = {.ret = 0};
	ssize_t n = read(src->fd, &o, sizeof(o));
	struct err e = ERR_INIT;
	int r = 0;

	(void)events;
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	o.why[sizeof(o.why) - 1] = '\0';
	if (n != (ssize_t)sizeof(o))
		r = err_set(&e, ERR_INTERNAL, EPIPE, "the rules could not be changed");
	else if (o.ret < 0)
		r = err_set(&e, (enum err_kind)o.fault, -o.ret, "%s", o.why);
	conn_reply(d->s, &d->asker, r, &e);
	drop(d);
}

/* "Nothing" as rules: what is there is taken away, and nothing is put in its place. */
static int no_rules(char **ret, struct err *e)
{
	struct egress g;
	int r;

	egress_init(&g);
	r = egress_finish(&g, ret, e);
	egress_done(&g);
	return r;
}

/* A sandbox that was started with nothing to reach has no gate: nothing is what it has, and more it cannot get. */
static int without_gate(bool nothing, struct err *e)
{
	*e = ERR_INIT;
	return nothing ? 0
		       : err_set(e, ERR_UNSUPPORTED, ENOTSUP,
				 "the sandbox was created with nothing to reach, so it has no gate: other rules need another sandbox");
}

static int change(const struct config_template *t, const struct spawnd_ask *a, const char *text, struct err *e)
{
	struct door_said said = {.text = NULL};
	struct spec spec;
	int r = spawnd_spec(t, a, text, &spec, e);
	bool nothing = r == 0 && spec.egress == NULL;

	if (nothing)
		r = no_rules(&spec.egress, e);
	if (r == 0)
		r = door_call(a->id, DOOR_SET, spec.egress, strlen(spec.egress), &said, e);
	if (r == -ENOENT && spec.egress != NULL)
		r = without_gate(nothing, e);
	free(said.text);
	spec_done(&spec);
	return r;
}

static _Noreturn void run(const struct config_template *t, const struct spawnd_ask *a, const char *text, int report_fd)
{
	struct err e = ERR_INIT;

	child_detach("brig-errand", &report_fd, 1);
	(void)outcome_send(report_fd, change(t, a, text, &e), 0, &e);
	_exit(0);
}

int errand_start(struct server *s, const struct asker *who, const struct box *b, const struct spawnd_ask *a,
		 const char *text, struct err *e)
{
	const struct config_template *t = config_template(s->a->config, b->template);
	_cleanup_close_ int near_fd = -1, far_fd = -1;
	struct errand *d;
	int p[2], r;

	if (t == NULL)
		return err_set(e, ERR_CONFLICT, ENOENT, "its template '%s' is gone from the configuration", b->template);
	if (s->errands_n >= ERRANDS_MAX)
		return err_set(e, ERR_LIMITED, EBUSY, "too many changes of rules at once");
	if (pipe2(p, O_CLOEXEC | O_NONBLOCK) < 0)
		return err_set(e, ERR_INTERNAL, errno, "changing rules: %s", strerror(errno));
	near_fd = p[0];
	far_fd = p[1];
	d = calloc(1, sizeof(*d));
	if (d == NULL)
		return err_no_memory(e);
	*d = (struct errand){.report = {.ready = on_report, .fd = near_fd}, .s = s, .next = s->errands, .asker = *who};
	r = loop_watch(&s->loop, &d->report);
	d->pid = r < 0 ? -1 : fork();
	if (d->pid == 0)
		run(t, a, text, far_fd);
	if (d->pid < 0) {
		r = r < 0 ? r : -errno;
		loop_free_later(&s->loop, d);
		return err_set(e, ERR_INTERNAL, -r, "changing rules: %s", strerror(-r));
	}
	(void)steal_fd(&near_fd);
	s->errands = d;
	s->errands_n++;
	return 0;
}
