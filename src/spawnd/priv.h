#pragma once
/* What the parts of brig-spawn share. One struct server per process, one thread. */
#include "base/buf.h"
#include "spawnd/spawnd.h"
#include "sys/loop.h"

#include <stdbool.h>
#include <stdint.h>

enum {
	CONNS_MAX = 16,
	SWEEPS = 10,              /* what was killed takes its moment to be gone */
	OVERS_MAX = 4096,         /* ends that nobody forgot: then the oldest goes */
	QUEUED_TEXT_MAX = 8 << 20, /* bytes of rules of all starts that wait */
	READY_MS = 60000,         /* a start that takes longer is given up */
	TERM_MS = 5000,           /* a keeper that does not end when told to is killed */
	ERRANDS_MAX = 8,
};

/* What a forked child says at last, in one write. */
struct outcome {
	int32_t ret;    /* 0 or -errno */
	uint32_t fault; /* enum err_kind */
	uint32_t weaker;
	char why[256];
};

struct asker { /* who waits for an answer; a connection that has ended is found by nobody */
	uint64_t conn;
	uint32_t seq;
};

enum box_state { BOX_QUEUED, BOX_STARTING, BOX_LIVE, BOX_OVER };

struct box {
	struct source keeper, report; /* its pidfd; the pipe with its outcome. First: see box.c */
	struct server *s;
	struct box *next;
	enum box_state state;
	struct asker starter;
	struct spawnd_ask *ask; /* QUEUED: with its text; owned */
	pid_t pid;              /* of the keeper */
	bool ours;              /* our child */
	bool failed;            /* the start did not come to anything */
	bool kill;              /* its end was ordered */
	uint64_t due_ms;        /* when to use force; 0 = never. STARTING, or ordered to end */
	uint64_t time_ms;       /* since the epoch: started */
	char id[SPAWND_ID_MAX + 4], template[SPAWND_NAME_MAX + 4], tenant[SPAWND_NAME_MAX + 4];
};

struct errand { /* a child that changes the rules of a running sandbox */
	struct source report;
	struct server *s;
	struct errand *next;
	struct asker asker;
	pid_t pid;
	char id[SPAWND_ID_MAX + 4];
};

struct conn {
	struct source src;
	struct server *s;
	struct conn *next;
	uint64_t nr;
	bool owner; /* of spawnd_args.conn_fd */
	struct buf out; /* {u32 size, message} that the socket did not take yet */
};

struct server {
	const struct spawnd_args *a;
	struct loop loop;
	struct source listen, signals;
	struct conn *conns;
	uint64_t conn_nr;
	struct box *boxes; /* newest first */
	uint32_t starting, starting_max, queued, alive, overs; /* alive: QUEUED, STARTING and LIVE */
	size_t queued_text;
	struct errand *errands;
	uint32_t errands_n;
	uint64_t sweep_ms; /* when to look for dead records; 0 = not */
	uint32_t sweeps;   /* how often more */
	bool stop;
};

/* ---- conn.c ---- */
int must_check conn_open(struct server *s, int fd, bool owner); /* takes fd over in any case */
void conn_close_all(struct server *s);
/* To one connection, or (who NULL) to all. text: t->text_n bytes. One that reads too little is closed. */
void conn_tell(struct server *s, const struct asker *who, const struct spawnd_tell *t, const char *text);
void conn_reply(struct server *s, const struct asker *who, int r, const struct err *e); /* e: when r < 0 */

/* ---- asks.c ---- */
void ask_serve(struct server *s, const struct asker *who, const struct spawnd_ask *a, const char *text);

/* ---- box.c ---- */
struct box *box_find(struct server *s, const char *id);
struct box *box_new(struct server *s, const char *id); /* NULL: no memory */
void box_drop(struct box *b);                           /* forget it, with what it holds open */
int must_check box_watch(struct box *b, int pidfd, int report_fd); /* takes both over */
void box_kill(struct box *b);
void box_turn(struct server *s); /* what is due; starts that waited */
int box_wait_ms(const struct server *s);
/* "<id><suffix>" in dst */
enum { BOX_FILE_MAX = SPAWND_ID_MAX + 12 };
const char *box_file(const char *id, const char *suffix, char dst[BOX_FILE_MAX]);
ssize_t box_read_end(const struct server *s, const char *id, char dst[SPAWND_END_MAX + 1]);

/* ---- find.c ---- */
int must_check find_boxes(struct server *s, struct err *e);

/* ---- errand.c ---- */
int must_check errand_start(struct server *s, const struct asker *who, const struct box *b, const struct spawnd_ask *a,
			    const char *text, struct err *e);

/* ---- keeper.c: in a child of ours ---- */
/* Leave brig-spawn behind: descriptors but keep[0..n), signals, session. */
void child_detach(const char *name, int *keep, size_t n);
/* Start the sandbox, say how that went to report_fd, serve it until its end. Returns the exit code. */
int keeper_run(const struct server *s, const struct spawnd_ask *a, const char *text, int report_fd);
/* False: nobody is there to read it. */
bool outcome_send(int fd, int r, uint32_t weaker, const struct err *e);

/* ---- jail.c ---- */
int must_check keeper_jail(char *why, size_t size);
