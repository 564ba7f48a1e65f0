#include "guest/init.h"
#include "sys/prefault.h"

/* The agent: see guest/init.h. */
int main(int argc, char **argv)
{
	prefault();
	return init_main(argc, argv);
}
