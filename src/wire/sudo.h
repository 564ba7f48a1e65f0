#pragma once
/*
 * What `sudo` inside a sandbox (src/sudo) says to PID 1, and hears.
 *
 * A stream socket of the name below in the abstract namespace of the sandbox's own network (unix(7)): PID 1 takes
 * it before any code of the sandbox's runs and keeps it to the end, so nobody else can be called by it; nothing of it
 * is in the file system, so it is there whatever the root is. Who calls is what the kernel says (SO_PEERCRED).
 *
 *   caller -> PID 1   a header and a message of wire/request.h: KIND (EXEC), USER, UMASK and any number of ARG and ENV. With its
 *                     first byte come SUDO_FDS descriptors: 0, 1, 2 and the working folder (O_PATH). No ARG: only
 *                     whether it may is asked. Afterwards each byte is the number of a signal for what runs.
 *   PID 1 -> caller   a RESULT of wire/request.h, once it has ended or was refused, then the end of the stream
 *
 * A caller that is gone is seen as the end of its stream, which ends what runs.
 */
#include "wire/request.h"

#define SUDO_SOCKET "brig-sudo"

enum {
	SUDO_MAGIC = 0x44535242,	  /* "BRSD" */
	SUDO_VERSION = 1,
	SUDO_HDR = 12,			  /* u32 magic, u16 version, u16 zero, u32 length of the message */
	SUDO_REQUEST_MAX = 2 * 1024 * 1024, /* of the message, bytes: as much as execve(2) takes */
	SUDO_REPLY_MAX = 2048,		  /* bytes */
	SUDO_FDS = 4,
};

void sudo_header(uint8_t dst[SUDO_HDR], uint32_t len);
/* Length of the message that follows, -EPROTO: not such a header, or too long. */
int must_check sudo_header_decode(const uint8_t src[SUDO_HDR]);
/*
 * Pure: is this message such a request? Only the fields above, USER among them, every ENV a NAME=VALUE and none of
 * SUDO_UID, SUDO_GID and SUDO_USER, which PID 1 says. 0 or -EPROTO.
 */
int must_check sudo_request_check(const void *msg, size_t n);

struct sudo_reply {
	enum result_how how; /* HOW_EXIT, HOW_SIGNAL or HOW_ERROR */
	uint32_t code;       /* exit code or signal number */
	int err;             /* HOW_ERROR: errno */
	char text[1025];     /* HOW_ERROR: what failed, may be "" */
};
/* Pure: read what PID 1 says. 0 or -EPROTO. */
int must_check sudo_reply_decode(const void *msg, size_t n, struct sudo_reply *ret);
