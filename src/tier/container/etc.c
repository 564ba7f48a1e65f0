#include "tier/container/etc_priv.h"

#include "base/cleanup.h"
#include "base/num.h"
#include "net/net.h"
#include "tier/container/setup_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The made-up /etc of image "host": enough for programs to find users, names and time, and nothing
 * of the host's own configuration. Without a gate the resolver asks a port nobody listens on, so a
 * lookup fails at once instead of waiting. */

const char etc_passwd[] = "root:x:0:0:root:/root:/bin/bash\n"
			  "user:x:1000:1000:user:/home/user:/bin/bash\n"
			  "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n";

static const struct {
	const char *name, *text;
} files[] = {
    {"passwd", etc_passwd},
    {"group", "root:x:0:\ntty:x:5:\nuser:x:1000:\nnogroup:x:65534:\n"},
    {"nsswitch.conf",
     "passwd: files\ngroup: files\nhosts: files dns\nservices: files\nprotocols: files\n"},
    {"shells", "/bin/sh\n/bin/bash\n"},
};

static const char no_resolver[] = "nameserver 127.0.0.1\noptions timeout:1 attempts:1\n";
/* no search list, and no dots needed: what was asked is what the gate decides on */
static const char gate_resolver[] =
    "nameserver " NET_DNS4_TEXT "\noptions ndots:1 timeout:5 attempts:2\n";

/* The caller's lines first: of several addresses the first is tried first. */
static int put_hosts(int etc_fd, const struct strv *more, const char *hostname)
{
	char text[2048];
	size_t n = 0;
	int r;

	for (uint32_t i = 0; i < more->n; i++) {
		if (n + strlen(more->v[i]) + 256 > sizeof(text))
			return -E2BIG;
		n += (size_t)snprintf(text + n, sizeof(text) - n, "%s\n", more->v[i]);
	}
	(void)snprintf(text + n, sizeof(text) - n,
		       "127.0.0.1 localhost %s\n::1 localhost ip6-localhost ip6-loopback\n",
		       hostname);
	r = put_file(etc_fd, "hosts", text, 0644);
	if (r < 0)
		return r;
	(void)snprintf(text, sizeof(text), "%s\n", hostname);
	return put_file(etc_fd, "hostname", text, 0644);
}

/* localtime is a link into the zone database, which lies in /usr. */
static int put_localtime(int etc_fd)
{
	char target[256];
	ssize_t n = readlink("/etc/localtime", target, sizeof(target) - 1);

	if (n <= 0)
		return 0; /* no link: UTC */
	target[n] = '\0';
	return symlinkat(target, etc_fd, "localtime") == 0 ? 0 : -errno;
}

/* What Debian's packages want in /etc and have in /usr as it was delivered: matplotlib is not imported without. */
static int put_delivered(int etc_fd)
{
	static const char from[] = "/usr/share/matplotlib/matplotlib.conf/matplotlibrc";

	if (faccessat(AT_FDCWD, from, F_OK, 0) < 0)
		return 0; /* not installed */
	return symlinkat(from, etc_fd, "matplotlibrc") == 0 ? 0 : -errno;
}

int etc_fill(int root_fd, const struct spec *spec, const char *hostname, bool gate)
{
	_cleanup_close_ int etc_fd = openat(root_fd, "etc", O_PATH | O_DIRECTORY | O_CLOEXEC);
	int r = etc_fd < 0 ? -errno : 0;

	for (size_t i = 0; r == 0 && i < ARRAY_LEN(files); i++)
		r = put_file(etc_fd, files[i].name, files[i].text, 0644);
	if (r == 0)
		r = put_file(etc_fd, "resolv.conf", gate ? gate_resolver : no_resolver, 0644);
	if (r == 0)
		r = put_hosts(etc_fd, &spec->hosts, hostname);
	if (r == 0)
		r = put_localtime(etc_fd);
	if (r == 0)
		r = put_delivered(etc_fd);
	if (r == 0 && symlinkat("../usr/lib/os-release", etc_fd, "os-release") < 0)
		r = -errno;
	return r == 0 && symlinkat("/proc/self/mounts", etc_fd, "mtab") < 0 ? -errno : r;
}
