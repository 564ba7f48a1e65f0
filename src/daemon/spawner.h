#pragma once
/* brigd's end of the connection to brig-spawn (wire/spawnd.h): asks with answers by seq, made anew when it is lost. */
#include "sys/loop.h"
#include "wire/spawnd.h"

struct spawner_wait;
/* The answer, or NULL: the connection was lost before. text: tell->text_n bytes, borrowed. */
typedef void spawner_done_fn(void *owner, const struct spawnd_tell *tell, const char *text);

struct spawner {
	struct source src; /* fd -1 = not connected */
	struct loop *loop;
	const char *path;  /* of its socket; borrowed; NULL: it was given a connected one and cannot connect again */
	uint32_t seq;
	struct spawner_wait *first;
	/* Unasked: a sandbox has ended. */
	void (*ended)(void *owner, const struct spawnd_tell *tell, const char *text);
	/* An entry of a LIST. */
	void (*entry)(void *owner, const struct spawnd_tell *tell);
	/* The connection was lost; everybody who waits was told. */
	void (*lost)(void *owner);
	void *owner;
};

/* Take over a connected socket. */
int must_check spawner_take(struct spawner *s, int fd);
/* Connect to s->path. */
int must_check spawner_connect(struct spawner *s);
void spawner_close(struct spawner *s);
static inline bool spawner_up(const struct spawner *s) { return s->src.fd >= 0; }
/* Send an ask (its seq and text_n are set here). done is called once, not from inside; NULL = nobody cares. -errno. */
int must_check spawner_ask(struct spawner *s, const struct spawnd_ask *ask, const char *text, size_t text_n,
			   spawner_done_fn *done, void *owner);
