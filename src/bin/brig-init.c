#include "guest/init.h"

/* The agent: see guest/init.h. */
int main(int argc, char **argv)
{
	return init_main(argc, argv);
}
