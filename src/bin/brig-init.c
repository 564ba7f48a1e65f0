#include "guest/init.h"
#include "sys/pages.h"

/* The agent: see guest/init.h. */
int main(int argc, char **argv)
{
	pages_make_code();
	return init_main(argc, argv);
}
