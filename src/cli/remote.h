#pragma once
/*
 * Commands that talk to a daemon are another program's, brig-client: it needs TLS, HTTP and the
 * system's C library, which `brig run` must not carry. brig replaces itself with it.
 */
#include "cmd/command.h"

extern const struct command_impl command_remote; /* of every such row */
/* `brig help COMMAND` of one. Returns the exit code, if it returns. */
int remote_help(const struct command *c);
/* Let brig-client print its part of a completion script, if it is installed. Returns the exit code.
 */
int remote_completion(const char *shell);
