#pragma once
/*
 * The door of a running sandbox's gate: a SOCK_SEQPACKET socket in the state folder that `brig egress` knocks at. One
 * question, one answer, then it is closed; but see door_answer's `ranges`. Both ends are programs of the same user's, or root's (SO_PEERCRED), and check
 * sizes all the same. Numbers are never used twice.
 */
#include <stdint.h>

enum door_kind {
	DOOR_SHOW = 1, /* answered with the rules in force */
	DOOR_SET = 2,  /* text_n bytes of rules: answered when they are in force, or why they are not */
	DOOR_RANGES = 3, /* after an answer with `ranges`: what became of it, an errno in text_n; nothing follows */
};
enum { DOOR_TEXT_MAX = 128 * 1024 };

struct door_ask {
	uint32_t kind;
	uint32_t text_n; /* SET: bytes that follow. RANGES: an errno, 0 = done */
};
struct door_answer {
	uint32_t err;        /* 0, or an errno; text then says why */
	uint32_t generation; /* of the rules in force: 1, 2, ... */
	uint32_t text_n;     /* bytes that follow */
	/*
	 * 1 = the rules are in force, but whoever has the door may not change the kernel's address ranges (a keeper is nobody's
	 * root any more). It sends what they are changed by (SCM_RIGHTS: NET_RULES of net/net.h): the caller does it, says so
	 * by RANGES, and is answered once more. Only root is asked.
	 */
	uint32_t ranges;
};
