/* The brig program: everything is in src/cli. */
#include "cli/command.h"
#include "sys/prefault.h"

int main(int argc, char **argv) 
{
	prefault();
	return cli_main(argc, argv);
}
