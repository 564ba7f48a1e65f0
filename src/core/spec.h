#pragma once
/*
 * What the caller asked for, after parsing and merging (defaults < profile < command line) and
 * before any tier sees it. Plain values; strings are owned by the spec.
 */
#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

enum root_mode { ROOT_READONLY, ROOT_OVERLAY };
enum root_caps { ROOT_CAPS_NONE, ROOT_CAPS_FILES };
enum sudo_use { SUDO_NO, SUDO_YES, SUDO_ANY /* yes, where the image has room for the program */ };

/* Parts of the wall a caller may insist on (--require); a start that cannot give one is refused. */
enum require {
#define REQUIRE(id, bit, name, text) REQ_NEED_##id = 1u << (bit),
#include "core/require.def"
#undef REQUIRE
};

struct strv { /* list of owned strings; v[n] is always NULL once anything was added */
	char **v;
	uint32_t n;
};

struct spec {
	char id[33];     /* sandbox id: [a-z0-9], set by spec_new_id */
	char *task;      /* the caller's own word for what is run, for records and results; NULL = none */
	char *tier;      /* name of a row in tier/tiers.def; "auto" is not a tier and is refused here */
	char *image;     /* "host", or the absolute path of a root folder */
	char *image_digest; /* "sha256:...": a stored image, `image` is its tree; NULL = it has none */
	char *image_user;   /* the image's default user, NAME or UID[:GID]; NULL = "user" of host, else root */
	bool image_held;    /* image_fd is a lock: whoever has it open keeps the image. Owned by the spec */
	int image_fd;
	char *user;      /* NAME or UID[:GID]; NULL = the image's default user */
	char *workdir;   /* absolute, inside; NULL = /workspace */
	char *hostname;  /* NULL = "brig"; <= 64 bytes */
	struct strv env; /* NAME=VALUE of every exec that does not give its own */
	uint64_t memory; /* bytes: processes and writable places together; 0 = no limit */
	uint64_t disk;   /* bytes of all writable places together */
	uint64_t inodes; /* of all writable places together */
	uint32_t cpu_milli; /* thousandths of one CPU; 0 = no limit */
	uint32_t pids;   /* processes and threads; 0 = no limit */
	uint64_t timeout_ms; /* life span of the sandbox; 0 = none */
	enum root_mode root;
	enum root_caps root_caps;
	enum sudo_use sudo; /* the user it runs as may ask for commands as somebody else: `sudo` inside */
	uint32_t require; /* REQ_NEED_* */
	bool measure;     /* the agent measures its walls when it starts: a receipt is asked for */
	char *see;       /* a host folder shown read-only at /mnt, of image "host" only; NULL = none */
	struct strv hosts; /* more lines of its /etc/hosts, of image "host" only */
	bool egress_local; /* its rules may lead to one address each that nothing else opens: brig's own tools only */
	char *egress;    /* rules of what may leave, a line each (gate/judge.h); NULL = nothing, and no gate */
};

#define SPEC_TIMEOUT_MAX_MS (366 * 86400000ull) /* longest life span */

enum {
	SPEC_TASK_MAX = 64, /* bytes */
	SPEC_MEMORY_DEFAULT_MIB = 1024,
	SPEC_DISK_DEFAULT_MIB = 512,
	SPEC_PIDS_DEFAULT = 512,
	SPEC_INODES_DEFAULT = 200000,
	SPEC_MEMORY_SLACK_MIB = 64, /* disk + this must fit into memory: a full disk is ENOSPC, never an OOM kill */
};

void spec_init(struct spec *s); /* the defaults */
void spec_done(struct spec *s);
void spec_new_id(struct spec *s); /* 20 random characters */
/* Check ranges and combinations that hold for every tier. The message names the setting. */
int must_check spec_check(const struct spec *s, struct err *e);

/* Shrink a disk limit that nobody chose so that it fits into a smaller memory limit. */
void spec_fit_disk(struct spec *s);

int must_check strv_add(struct strv *v, const char *s); /* copies; 0 or -ENOMEM */
void strv_done(struct strv *v);
