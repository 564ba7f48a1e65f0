#pragma once
/* A call to a port inside, between port.c (request, connection) and port_answer.c. */
#include "keep/talk.h"
#include "keep/timer.h"
#include "parse/http.h"
#include "parse/http_chunks.h"
#include "session/session.h"

enum { PORT_IN = HTTP_HEAD_MAX + 16 * 1024 };

struct port {
	struct talk *t;
	struct stream *s; /* NULL once its result came */
	uint32_t nr;
	const char *target; /* after the port; may lack its '/' */
	struct buf up;	    /* request bytes the agent has not taken */
	struct buf in;	    /* answer bytes not looked at */
	bool head_put, has_length, eof, refused;
	const char *upgrade; /* the protocol asked for, NULL = HTTP */
	bool switched;	     /* to it: bytes go both ways as they are */
	bool body_ended;     /* of a call that switched: the program is not told yet */
	uint64_t length; /* of the request's body, still to come */
	struct timer look;
	bool answered; /* the answer's head went out */
	enum http_body body;
	uint64_t left; /* of HTTP_LENGTH */
	struct http_chunks chunks;
};

/* Pass on what is in p->in as far as the client takes it. p may be gone afterwards. */
void port_answer(struct port *p);
/* The program took the other protocol: the rest of the call's body is for it. */
void port_switched(struct port *p);
/* Let go of p with a failure, or with the answer's end. */
void port_refuse(struct port *p, const char *why);
void port_done(struct port *p);
