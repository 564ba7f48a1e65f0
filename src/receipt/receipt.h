#pragma once
/*
 * Receipts: what was measured of a sandbox's walls before its command ran, set against what was
 * asked for, and signed with this machine's key. docs/receipt.md has the format.
 *
 * Nothing here starts or talks to a sandbox: the caller brings the agent's report (wire/probe.h,
 * decoded) and what only the host knows.
 */
#include "base/buf.h"
#include "base/err.h"
#include "core/spec.h"
#include "wire/probe_compare.h"

#include <stdbool.h>
#include <stdint.h>

enum {
	RECEIPT_SCHEMA = 1,
	RECEIPT_MAX = 256 * 1024, /* bytes of a receipt file; a larger one is refused unread */
	RECEIPT_PUB = 32,	  /* bytes of a public key */
	RECEIPT_SEED = 32,
	RECEIPT_SIG = 64,
	RECEIPT_HEX = 2 * RECEIPT_PUB + 1,
	RECEIPT_GAPS_MAX = 16,
};

/* A wall or limit this host does not give, which the caller had to accept: both texts are static.
 */
struct receipt_gap {
	const char *wall, *reason;
};

/* A limit as its cgroup file has it; UINT64_MAX = none is set there, `known` false = there is no
 * file. */
struct receipt_limit {
	bool known;
	uint64_t value;
};

/* What the host's side knows. Borrowed. */
struct receipt_host {
	const struct spec *spec;
	const char *digest;	       /* of the image, "sha256:..."; NULL = it has none */
	int64_t time;		       /* seconds since the epoch */
	const char *version;	       /* brig's */
	const char *release, *machine; /* uname(2) of the host */
	uint64_t ns[PROBE_NSS];	       /* brig's own namespaces, as struct probe_task's */
	bool own_ids;		       /* the sandbox has a range of host ids of its own (root) */
	uint32_t euid;		       /* the caller's */
	bool landlock;		       /* it should stand */
	bool pids_by_rlimit;	       /* the process limit is RLIMIT_NPROC */
	struct receipt_limit memory, pids, cpu_milli; /* cgroup files, read by the host */
	struct receipt_gap gap[RECEIPT_GAPS_MAX];
	uint32_t gaps;
	char *const *argv; /* the command */
};

/* expect.c: what the command's process is to compare with. Pure. */
void receipt_expect(const struct receipt_host *h, struct probe_expect *ret);
/* Compare all of it, and the limits only the host sees. Pure. */
void receipt_compare(const struct receipt_host *h, const struct probe *p, struct probe_diffs *ret);

struct receipt_key {
	uint8_t pub[RECEIPT_PUB];
	uint8_t
	    secret[RECEIPT_SEED + RECEIPT_PUB]; /* seed and public half, as libsodium has them */
};
/*
 * key.c: the machine's key, <folder>/receipt.key: 32 random bytes, 0600. When it is missing it is
 * made, if `make`; two callers at once then get the same one; else -ENOENT. A file of another size,
 * mode or owner, or a link, is refused. The folder must exist.
 */
int must_check receipt_seed_load(const char *folder, bool make, uint8_t ret[RECEIPT_SEED],
				 struct err *e);
/* The pair of a seed; -EIO. It starts libsodium, which asks the processor what it can do: not while somebody waits.
 */
int must_check receipt_key_from_seed(const uint8_t seed[RECEIPT_SEED], struct receipt_key *ret);
void receipt_key_wipe(struct receipt_key *k);
/* A public key in hex, or the file that holds it: 64 hex digits and at most a line end. */
int must_check receipt_pub_read(const char *word, uint8_t ret[RECEIPT_PUB], struct err *e);
const char *receipt_pub_text(const uint8_t pub[RECEIPT_PUB], char dst[RECEIPT_HEX]);

/*
 * A file is made in one buffer with a maximum of RECEIPT_MAX, in three steps: what is known before
 * anything was measured (of *h: spec, version, argv), and with that whether the rest has room; the
 * rest of the payload; the signature. Each 0, -ENOMEM, -ENOBUFS.
 */
int must_check receipt_begin(const struct receipt_host *h, struct buf *file); /* compose.c */
size_t receipt_most(const struct buf *begun); /* bytes it may come to, after receipt_begin */
int must_check receipt_compose(const struct receipt_host *h, const struct probe *p,
			       const struct probe_diffs *d, const uint8_t pub[RECEIPT_PUB],
			       struct buf *file);
int must_check receipt_seal(const struct receipt_key *k, struct buf *file); /* envelope.c */

/* What a verified receipt says, for people. */
struct receipt_facts {
	char id[33], tier[32], image[128], digest[80];
	int64_t time;
	bool enforced;
	uint32_t differences, gaps;
	char gap[RECEIPT_GAPS_MAX][48], reason[RECEIPT_GAPS_MAX][160];
	char diff[PROBE_DIFFS_MAX][320]; /* "WALL: asked for X, measured Y" */
	uint8_t pub[RECEIPT_PUB];
	size_t payload_at, payload_len; /* where the JSON lies in the file */
};
/*
 * verify.c: is p[0..n) a whole receipt that the owner of `pub` signed? The signature is checked
 * before any of the JSON is read. 0 and *ret; -EBADMSG, -EKEYREJECTED (another key) or
 * -EPROTONOSUPPORT (a newer format) with the reason. A receipt of a start that was refused is
 * genuine too: see `enforced`.
 */
int must_check receipt_verify(const void *p, size_t n, const uint8_t pub[RECEIPT_PUB],
			      struct receipt_facts *ret, struct err *e);

/*
 * file.c: a new file that takes path's place when it is whole. Until then it has no name, so that
 * nothing is left of it whatever happens.
 */
struct receipt_file {
	char *path, *folder, *temp; /* owned */
	int fd;			    /* -1 = none */
	int old_fd; /* O_PATH: what was there when it was opened; -1 = nothing. Kept so that the blocks of
		       what is replaced are freed when this is closed and not before, see file.c */
	bool named;		    /* as temp: a file system without O_TMPFILE */
	bool reserved;		    /* it is larger than what will be in it */
};
int must_check receipt_file_open(const char *path, struct receipt_file *ret, struct err *e);
/* Take n bytes of the disk for it, so that a full one is known before anything is started. A file system that cannot do that
 * is no error. */
int must_check receipt_file_reserve(struct receipt_file *f, size_t n, struct err *e);
int must_check receipt_file_write(struct receipt_file *f, const void *p, size_t n, struct err *e);
/* Wait until what was written, and its name, are on the disk. */
int must_check receipt_file_sync(struct receipt_file *f, struct err *e);
void receipt_file_done(struct receipt_file *f); /* accepts one never opened ({.fd = -1, .old_fd = -1}) */
/* Read a file of at most RECEIPT_MAX bytes; *ret is owned (free). */
int must_check receipt_file_read(const char *path, uint8_t **ret, size_t *ret_n, struct err *e);
