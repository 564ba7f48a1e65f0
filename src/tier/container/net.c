#include "base/cleanup.h"
#include "tier/container/setup_priv.h"

#include <errno.h>
#include <net/if.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

/* The sandbox's network namespace holds a loopback interface and nothing else; netdevice(7). */
int setup_loopback(void)
{
	_cleanup_close_ int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct ifreq ifr = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};

	if (fd < 0)
		return -errno;
	return ioctl(fd, SIOCSIFFLAGS, &ifr) == 0 ? 0 : -errno;
}
