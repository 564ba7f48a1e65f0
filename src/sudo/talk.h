#pragma once
/* The connection to PID 1, and the signals that go over it. */
#include "base/buf.h"
#include "wire/sudo.h"

/* A descriptor, -ECONNREFUSED or -EPERM: nobody answers by the name, -EPROTO: somebody who is not PID 1 does, or -errno. */
int must_check talk_connect(void);
/* Send the request with the descriptors 0, 1, 2 and cwd_fd. A peer that has gone is no error: it has said why. 0 or -errno. */
int must_check talk_ask(int fd, const struct buf *request, int cwd_fd);
/* Pass signals on until the answer is there. 0, -EPROTO: there is none. Signals that were ignored stay so. */
int must_check talk_wait(int fd, struct sudo_reply *ret);
