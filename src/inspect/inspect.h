#pragma once
/* The process that reads HTTP, until its control socket ends. Returns its exit status. See wire/inspect.h. */
int inspect_main(int ctl_fd, int peer_fd);
