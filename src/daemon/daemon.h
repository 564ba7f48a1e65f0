#pragma once
/*
 * What brigd knows and does, without HTTP: the life of sandboxes. One thread, one loop; nothing blocks but SQLite's writes
 * to its log.
 *
 * A sandbox's row is written before it is given to anybody, and its end is written once, by whoever learns of it first:
 * brig-spawn's message, its list after a reconnection, or the answer to a kill.
 */
#include "core/config.h"
#include "daemon/ask_json.h"
#include "daemon/box.h"
#include "daemon/seal.h"
#include "daemon/spawner.h"
#include "daemon/stats.h"
#include "daemon/store.h"

struct pool { /* of the template with the same number */
	uint32_t want;
	uint32_t coming;   /* asked for, and not there yet */
	uint64_t used_ms;  /* monotonic: a sandbox of it was asked for */
	uint64_t short_ms; /* since then fewer wait than should; 0 = as many do */
	uint64_t retry_ms; /* not before: the last start failed */
};
struct figures { /* of the template with the same number, from its profile */
	uint32_t cpu_count;
	uint64_t memory_mb, disk_mb;
};

struct daemon {
	struct loop loop;
	const struct config *config;
	struct store *store;
	struct seal seal;
	struct box_table boxes;
	struct spawner spawner;
	struct ask_list asks;
	struct stats stats;
	struct pool pool[CONFIG_TEMPLATES_MAX];
	struct figures figures[CONFIG_TEMPLATES_MAX];
	char folder[108]; /* of the sandboxes' sockets; "" = not known yet */
	bool cannot_pause; /* a keeper said so */
	bool stopping;
	bool listing; /* a LIST is under way: who is not in it was lost */
	uint64_t tick_ms, retry_ms, purge_ms;
	struct life_op *ops; /* all under way */
	struct left *left;   /* denials.c */
	uint32_t left_n;
};

/* State folder, store, secret, rows of an earlier life. config is borrowed. */
int must_check daemon_open(struct daemon *d, const struct config *config, struct err *e);
/* After daemon_quiesce, when it is not busy any more. Sandboxes in use go on. */
void daemon_close(struct daemon *d);
/* Things that are due. Returns milliseconds until it should be called again. */
int daemon_tick(struct daemon *d);
/* Start nothing new, end the pool. */
void daemon_quiesce(struct daemon *d);
/* Something is under way that an end would leave half done. */
bool daemon_busy(const struct daemon *d);
int64_t daemon_now_ms(void); /* wall clock */
/* What went wrong where nobody can be answered: one line on standard error. */
void daemon_say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
uint32_t daemon_template_index(const struct daemon *d, const struct config_template *t);

/* The socket of a sandbox's keeper. -EAGAIN = the folder is not known yet. */
int must_check daemon_socket(const struct daemon *d, const struct box *b, char *dst, size_t size);

/* ---- life.c: status is an HTTP status; 0 = it was done. why: words for the client. ---- */

typedef void life_done_fn(void *owner, struct box *b, unsigned status, const char *why);

struct life_wish {
	const char *tenant;
	const struct config_template *template;
	uint64_t timeout_ms;          /* > 0 */
	const json_t *metadata, *env; /* borrowed; NULL = none */
	bool private_traffic, pause_at_end, auto_resume, no_internet;
	enum spawnd_egress egress;
	const char *egress_text; /* borrowed; NULL = none */
};
/* done is called once, perhaps from inside; b is NULL on failure. */
void life_create(struct daemon *d, const struct life_wish *w, life_done_fn *done, void *owner);
void life_kill(struct daemon *d, struct box *b, life_done_fn *done, void *owner);
/* Move the end to timeout_ms from now. */
void life_timeout(struct daemon *d, struct box *b, uint64_t timeout_ms, life_done_fn *done, void *owner);
void life_pause(struct daemon *d, struct box *b, life_done_fn *done, void *owner);
void life_resume(struct daemon *d, struct box *b, uint64_t timeout_ms, life_done_fn *done, void *owner);
/* Other rules for what may leave. */
void life_egress(struct daemon *d, struct box *b, enum spawnd_egress egress, const char *text, life_done_fn *done,
		 void *owner);
/* Nobody waits for this owner's operations any more; they go on. */
void life_forget(struct daemon *d, const void *owner);

/* ---- what the files of this folder share ---- */

/* Forget all operations, without a word. */
void life_drop_all(struct daemon *d);

/* It has ended: record it once, drop it. result: JSON or NULL. */
void life_ended(struct daemon *d, struct box *b, const char *how, const char *result);
void life_log(struct daemon *d, const struct box *b, const char *level, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* Write its row. A failure is said and counted. */
int life_save(struct daemon *d, struct box *b);
/* Order the end of a sandbox nobody knows. */
void life_end_unknown(struct daemon *d, const char *id);

/* pool.c: one that is ready, out of the pool; NULL = none. Counts the demand. */
struct box *pool_take(struct daemon *d, const struct config_template *t);
uint32_t pool_ready(const struct daemon *d); /* how many have done all that can be done ahead */
void pool_tick(struct daemon *d);
/* Milliseconds until pool_tick has to be called again; -1 = something else happens first. */
int pool_wait(const struct daemon *d);
/* Make room: end one that waits. False = there is none. */
bool pool_give_up(struct daemon *d);

/* recover.c: the spawner's callbacks; say hello on a new connection. */
void recover_wire(struct daemon *d);
void recover_hello(struct daemon *d);
