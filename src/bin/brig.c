/* The brig program: everything is in src/cli. */
#include "cli/command.h"
#include "sys/pages.h"

enum { STACK = 32 * 1024 }; /* of a run */

int main(int argc, char **argv)
{
	pages_make_code();
	pages_make_stack(STACK);
	return cli_main(argc, argv);
}
