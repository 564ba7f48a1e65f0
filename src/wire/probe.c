#include "wire/probe.h"

#include "base/num.h"

#include <errno.h>

/*
 * The reader of a report. Fed by the agent, hostile: the size is what its count of mounts makes it, every number is held to what it can be, every text must end inside its
 * room and be printable ASCII without '"' and '\', so that nothing read here needs escaping later;
 * what is unused must be zero, so that one state has one report.
 */

const char *const probe_call_names[] = {
#define CALL(id, name, ...) name,
#include "wire/probe_calls.def"
#undef CALL
};
const uint16_t probe_call_wants[] = {
#define CALL(id, name, want, ...) want,
#include "wire/probe_calls.def"
#undef CALL
};
const char *const probe_ns_names[] = {
#define NS(name) #name,
#include "wire/probe_facts.def"
#undef NS
};
const char *const probe_covered_names[] = {
#define COVERED(id, name) name,
#include "wire/probe_facts.def"
#undef COVERED
};
const char *const probe_sealed_names[] = {
#define SEALED(name) #name,
#include "wire/probe_facts.def"
#undef SEALED
};
const char *const probe_reach_names[] = {
#define REACH(id, name, ...) name,
#include "wire/probe_facts.def"
#undef REACH
};
const struct probe_limit_row probe_limits[] = {
#define LIMIT(id, name, soft, hard) {name, soft, hard},
#include "wire/probe_facts.def"
#undef LIMIT
};

enum { ERRNO_MAX = 4095, GROUPS_MAX = 65536, FILTERS_MAX = 1024, COUNT_MAX = 1 << 22 };

static bool text_ok(const char *s, size_t size, bool may_be_empty)
{
	size_t n = strnlen(s, size);

	if (n == size || (n == 0 && !may_be_empty))
		return false;
	for (size_t i = 0; i < size; i++) {
		unsigned char c = (unsigned char)s[i];

		if (i < n ? c < 0x20 || c > 0x7e || c == '"' || c == '\\' : c != 0)
			return false;
	}
	return true;
}

static bool is_zero(const void *p, size_t n)
{
	const uint8_t *b = p;

	while (n > 0 && b[n - 1] == 0)
		n--;
	return n == 0;
}

static bool task_ok(const struct probe_task *t)
{
	for (int i = 0; i < PROBE_CAPS; i++)
		if (t->caps[i] >> 63 != 0)
			return false;
	for (int i = 0; i < PROBE_CALLS; i++)
		if (t->call[i] > ERRNO_MAX)
			return false;
	for (int i = 0; i < PROBE_NSS; i++)
		if (t->ns[i] > UINT32_MAX)
			return false;
	return t->pid > 0 && t->pid <= COUNT_MAX && t->groups <= GROUPS_MAX &&
	       t->no_new_privs <= 1 && t->seccomp_mode <= 2 && t->seccomp_filters <= FILTERS_MAX &&
	       t->securebits <= UINT16_MAX && t->outside <= ERRNO_MAX &&
	       is_zero(t->pad, sizeof(t->pad)) && t->pad2 == 0;
}

static bool command_ok(const struct probe_command *c)
{
	return task_ok(&c->task) && c->pids <= COUNT_MAX && c->sys_open <= ERRNO_MAX &&
	       c->pad2 == 0 && c->fds <= COUNT_MAX;
}

static bool world_ok(const struct probe_world *w)
{
	for (int i = 0; i < PROBE_COVEREDS; i++)
		if (w->covered[i] >= PROBE_PATHS)
			return false;
	for (int i = 0; i < PROBE_SEALEDS; i++)
		if (w->sealed[i] >= PROBE_PATHS)
			return false;
	for (int i = 0; i < PROBE_REACHES; i++)
		if (w->reach[i] > ERRNO_MAX && w->reach[i] != PROBE_UNTRIED)
			return false;
	return is_zero(w->pad, sizeof(w->pad));
}

static bool mounts_ok(const struct probe *p)
{
	for (uint32_t i = 0; i < p->mounts; i++) {
		const struct probe_mount *m = &p->mount[i];

		if (!text_ok(m->at, sizeof(m->at), false) ||
		    !text_ok(m->root, sizeof(m->root), false) ||
		    !text_ok(m->type, sizeof(m->type), false) || m->flags >= 2 * PROBE_HIDEPID ||
		    m->pad != 0)
			return false;
	}
	return true;
}

static bool maps_ok(const struct probe_map *m, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		if (m[i].count == 0)
			return false;
	return is_zero(m + n, (PROBE_MAPS_MAX - n) * sizeof(*m));
}

static bool ifs_ok(const struct probe *p)
{
	for (uint32_t i = 0; i < PROBE_IFS_MAX; i++)
		if (i < p->ifs ? !text_ok(p->if_name[i], sizeof(p->if_name[i]), false)
			       : !is_zero(p->if_name[i], sizeof(p->if_name[i])))
			return false;
	return true;
}

static int bad(struct err *e, const char *what)
{
	return err_set(e, ERR_LOST, EPROTO, "the agent's report on its walls is malformed: %s",
		       what);
}

int probe_check(const struct probe *p, size_t n, struct err *e)
{
	if (n < offsetof(struct probe, mount) || n > sizeof(*p))
		return bad(e, "its size");
	if (p->head.magic != PROBE_MAGIC || p->head.version != PROBE_VERSION || p->head.pad != 0)
		return bad(e, "not of this version of brig");
	if (p->uid_maps > PROBE_MAPS_MAX || p->gid_maps > PROBE_MAPS_MAX ||
	    p->ifs > PROBE_IFS_MAX || p->mounts > PROBE_MOUNTS_MAX)
		return bad(e, "more entries than there is room for");
	if (n != probe_size(p))
		return bad(e, "its size");
	if (!command_ok(&p->command))
		return bad(e, "the command");
	if (!task_ok(&p->init))
		return bad(e, "PID 1");
	if (!world_ok(&p->world))
		return bad(e, "what is covered or reached");
	if (!maps_ok(p->uid_map, p->uid_maps) || !maps_ok(p->gid_map, p->gid_maps) ||
	    p->setgroups_denied > 1)
		return bad(e, "the id maps");
	if (!ifs_ok(p))
		return bad(e, "the interfaces");
	if (!mounts_ok(p))
		return bad(e, "the mounts");
	if (p->landlock_abi > 1000 || !text_ok(p->release, sizeof(p->release), false) ||
	    !text_ok(p->machine, sizeof(p->machine), false) ||
	    !text_ok(p->node, sizeof(p->node), true) ||
	    !text_ok(p->agent, sizeof(p->agent), false))
		return bad(e, "the kernel or agent");
	return 0;
}
