#pragma once
/* The gate's process after its main: serves the control socket until its end. Returns an exit status. */
int relay_main(int ctl_fd);
