/*
 * The victim: a process of the caller's that an attack must not reach. No attack by itself.
 *
 * It prints the address of 16 bytes it was given by argv, and then answers each line of its input with
 * those bytes as they are now and the number of signals it has caught, so the stage sees from outside
 * whether memory was changed or a signal came through. Runs from a copy of its own, which is what
 * attacks on a running program's file try to overwrite.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static char secret[64];
static volatile sig_atomic_t caught;

static void on_signal(int nr)
{
	(void)nr;
	caught++;
}

int main(int argc, char **argv)
{
	struct sigaction sa = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
	char line[16];

	for (int nr = 1; nr < 65; nr++)
		(void)sigaction(nr, &sa, NULL);
	if (argc == 2)
		(void)snprintf(secret, sizeof(secret), "%s", argv[1]);
	memset(argv[argc - 1], 0, strlen(argv[argc - 1])); /* in memory only, not in the command line */
	printf("%p\n", (void *)secret);
	(void)fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		printf("%s %d\n", secret, (int)caught);
		(void)fflush(stdout);
	}
	return 0;
}
