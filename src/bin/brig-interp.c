#include "interp/interp.h"

/* The code interpreter's part inside the sandbox: see interp/interp.h. */
int main(int argc, char **argv) { return interp_main(argc, argv); }
