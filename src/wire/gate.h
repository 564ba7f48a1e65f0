#pragma once
/*
 * Control of the gate's process (src/relay): one message per SOCK_SEQPACKET record, from whoever starts
 * sandboxes. The gate believes its peer, which is the process that started it or the daemon, but checks
 * sizes all the same. Numbers are never used twice.
 *
 * ATTACH comes before the sandbox is there, so that its rules are read meanwhile; SOCKS when it is. Text, of ATTACH
 * and POLICY, follows the header, then the proxy's credentials (USER:PASSWORD), if its rules have a reference to such. A POLICY
 * without them keeps those of the same reference.
 */
#include <stdint.h>

enum gate_kind {
	GATE_ATTACH = 1, /* sandbox, rules; SCM_RIGHTS: the write end of a pipe for records and, where a process reads HTTP for
			  * the gate's sandboxes, the gate's end of the pair with it (wire/inspect.h). ATTACHED or REFUSED */
	GATE_DETACH = 2, /* sandbox: close everything of it; answered by DETACHED after the last record */
	GATE_SOCKS = 3,  /* sandbox; SCM_RIGHTS: its sockets (net/net.h) that are there. REFUSED, or no answer */
	GATE_POLICY = 4, /* sandbox, rules: other ones from now on. POLICY_SET or POLICY_KEPT */
	GATE_ATTACHED = 101,
	GATE_REFUSED = 102,  /* why: the rules or descriptors cannot be served */
	GATE_DETACHED = 103,
	GATE_KILL = 104, /* unasked: the rules say that this sandbox must end; why */
	GATE_POLICY_SET = 105,
	GATE_POLICY_KEPT = 106, /* why: the new rules cannot be used, the old ones go on */
};

enum { GATE_TEXT_MAX = 128 * 1024, GATE_RESOLVERS_MAX = 3, GATE_WHY_MAX = 256, GATE_SOCKS_MAX = 5, GATE_TASK_MAX = 68,
       GATE_SECRET_MAX = 1024 };

struct gate_ask {
	uint32_t kind;
	uint32_t text_n;  /* ATTACH, POLICY: bytes of rules after this header */
	uint32_t there;   /* SOCKS: bit i = socket i of enum net_sock is among the descriptors */
	uint32_t secret_n; /* ATTACH, POLICY: bytes of credentials after the rules */
	char sandbox[36]; /* id, NUL-terminated */
	char tier[16];
	char task[GATE_TASK_MAX]; /* ATTACH: the caller's word for what it runs, for records; "" = none */
	char resolver[GATE_RESOLVERS_MAX][56]; /* ATTACH: IP addresses to ask names of, when the rules name none */
};

struct gate_tell {
	uint32_t kind;
	uint32_t zero;
	char sandbox[36];
	char why[GATE_WHY_MAX];
};

enum { GATE_CTL_FD = 3 }; /* where the program finds its control socket */
