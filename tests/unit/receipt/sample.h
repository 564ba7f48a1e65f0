#pragma once
/* A report and a host that agree with each other, for tests to damage. */
#include "base/num.h"
#include "receipt/envelope_priv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static inline void sample_task(struct probe_task *t, uint32_t pid, uint32_t uid, uint64_t caps)
{
	*t = (struct probe_task){.pid = pid,
				 .no_new_privs = 1,
				 .seccomp_mode = 2,
				 .seccomp_filters = 1,
				 .securebits = 0xeb,
				 .outside = EACCES};
	for (int i = 0; i < 3; i++)
		t->uid[i] = t->gid[i] = uid;
	for (int i = 0; i < PROBE_CAPS; i++)
		t->caps[i] = i == PROBE_CAP_BND ? 0 : caps;
	for (int i = 0; i < PROBE_NSS; i++)
		t->ns[i] = 5000u + (uint32_t)i;
	for (int i = 0; i < PROBE_CALLS; i++)
		t->call[i] = probe_call_wants[i];
}

static inline void sample_probe(struct probe *p)
{
	static const struct probe_mount mounts[] = {
	    {.at = "/",
	     .root = "/",
	     .type = "tmpfs",
	     .flags = PROBE_RDONLY | PROBE_NOSUID | PROBE_NODEV},
	    {.at = "/usr",
	     .root = "/usr",
	     .type = "ext4",
	     .flags = PROBE_RDONLY | PROBE_NOSUID | PROBE_NODEV},
	    {.at = "/workspace",
	     .root = "/workspace",
	     .type = "tmpfs",
	     .flags = PROBE_NOSUID | PROBE_NODEV},
	    {.at = "/proc",
	     .root = "/",
	     .type = "proc",
	     .flags = PROBE_NOSUID | PROBE_NODEV | PROBE_NOEXEC},
	};

	memset(p, 0, sizeof(*p));
	p->head = (struct probe_head){PROBE_MAGIC, PROBE_VERSION, 0, 0};
	sample_task(&p->init, 1, 0, 0xe1);
	sample_task(&p->command.task, 2, 1000, 0);
	p->command.pids = 2;
	p->command.sys_open = EROFS;
	memset(p->world.covered, PROBE_SHUT, sizeof(p->world.covered));
	memset(p->world.sealed, PROBE_SHUT, sizeof(p->world.sealed));
	for (int i = 0; i < PROBE_REACHES; i++)
		p->world.reach[i] = ENETUNREACH;
	for (int i = 0; i < PROBE_LIMITS; i++) {
		p->command.soft[i] = probe_limits[i].soft;
		p->command.hard[i] = probe_limits[i].hard;
	}
	p->world.disk = 512u << 20;
	p->world.inodes = 200000;
	p->uid_maps = p->gid_maps = 1;
	p->uid_map[0] = p->gid_map[0] = (struct probe_map){0, 0x70000000, 65536};
	p->ifs = 1;
	memcpy(p->if_name[0], "lo", 3);
	memcpy(p->release, "6.1.0", 6);
	memcpy(p->machine, "x86_64", 7);
	memcpy(p->node, "brig", 5);
	memcpy(p->agent, "1.2", 4);
	p->mounts = ARRAY_LEN(mounts);
	memcpy(p->mount, mounts, sizeof(mounts));
}

/* spec and argv are static parts of the sample. */
static inline void sample_host(struct receipt_host *h)
{
	static char tier[] = "container", image[] = "host", word[] = "true", *argv[] = {word, NULL};
	static struct spec s;

	spec_init(&s);
	memcpy(s.id, "abcdefghij0123456789", 21);
	s.tier = tier;
	s.image = image;
	*h = (struct receipt_host){.spec = &s,
				   .time = 1700000000,
				   .version = "1.2",
				   .release = "6.1.0",
				   .machine = "x86_64",
				   .own_ids = true,
				   .landlock = true,
				   .memory = {true, s.memory},
				   .pids = {true, s.pids},
				   .argv = argv};
	for (int i = 0; i < PROBE_NSS; i++)
		h->ns[i] = 4000u + (uint32_t)i;
}

/* The payload as a C string of its own; NULL when it could not be made. */
static inline char *sample_payload(const struct receipt_host *h, const struct probe *p,
				   const struct probe_diffs *d, const uint8_t pub[RECEIPT_PUB])
{
	struct buf b = {.max = RECEIPT_MAX}, room = {.max = RECEIPT_MAX};
	char *text = NULL;

	if (receipt_begin(h, &b) == 0 && receipt_compose(h, p, d, pub, &b) == 0 &&
	    receipt_room(&room) == 0)
		text = strndup((const char *)buf_head(&b) + room.len, b.len - room.len);
	buf_done(&b);
	buf_done(&room);
	return text;
}

/* Sign any text as if it were a payload. 0 or -errno; *b is empty before. */
static inline int sample_seal(const char *text, size_t n, const struct receipt_key *k, struct buf *b)
{
	int r = receipt_room(b);

	if (r == 0)
		r = buf_put(b, text, n);
	return r == 0 ? receipt_seal(k, b) : r;
}
