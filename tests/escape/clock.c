/*
 * Sets the machine's clock.
 *
 * group: kernel
 * tries: set the machine's clock and its speed: settimeofday, clock_settime, adjtimex, clock_adjtime, the clock device
 * control: guest
 */
#include <sys/time.h>
#include <sys/timex.h>
#include <time.h>

#include "attack.h"

int main(int argc, char **argv)
{
	struct timespec now = {0, 0};
	struct timeval tv;
	struct timex tx = {.modes = ADJ_TICK, .tick = 10000};

	(void)argc;
	(void)argv;
	(void)clock_gettime(CLOCK_REALTIME, &now);
	tried("clock_settime", clock_settime(CLOCK_REALTIME, &now));
	tv = (struct timeval){now.tv_sec, now.tv_nsec / 1000};
	tried("settimeofday", settimeofday(&tv, NULL));
	tried("adjtimex", adjtimex(&tx));
	tried("clock_adjtime", clock_adjtime(CLOCK_REALTIME, &tx));
	tried("rtc", open("/dev/rtc0", O_RDONLY | O_CLOEXEC));
	return ended();
}
