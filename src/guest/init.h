#pragma once
/*
 * brig-init, the agent: PID 1 of every sandbox. Static, no configuration file, no environment.
 *
 * argv: brig-init KEY=VALUE...
 *   stream=N      descriptor of the byte stream to the host (required)
 *   leaf=N        cgroup folder (O_PATH) for the first EXEC that brings none
 *   user=NAME     default user of requests without USER (default root)
 *   rootcaps=none|files  capabilities a program with uid 0 keeps
 *   measure=walls|net    measure the walls now, for an EXEC with REQ_FD_MEASURE; net: nothing may be reached, so try
 *   sudo=UID      that user and uid 0 may ask for commands as somebody else (guest/sudo.h); absent = nobody
 *
 * How an exec without a leaf is kept together: unless it says REQ_SOLE, an intermediate process per
 * exec is its subreaper; ending the exec stops and kills its descendants in sweeps until none is left.
 */
int init_main(int argc, char **argv);
