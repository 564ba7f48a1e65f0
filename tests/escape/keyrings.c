/*
 * Reads the caller's kernel keys, which no namespace but the user one keeps apart.
 *
 * group: keys
 * tries: read the caller's keyring by number and by search, add a key to it, join its session, take its persistent keyring
 * control: plain
 * shows: key-read
 */
#include <linux/keyctl.h>

#include "attack.h"

static long keyctl(int what, long a, long b, long c, long d)
{
	return syscall(SYS_keyctl, what, a, b, c, d);
}

int main(int argc, char **argv)
{
	char text[128] = "";
	long key = param_number(argv, "key"), found;

	(void)argc;
	/* Possessed through the user keyring, once our session holds it. */
	tried("link", keyctl(KEYCTL_LINK, KEY_SPEC_USER_KEYRING, KEY_SPEC_PROCESS_KEYRING, 0, 0));
	if (keyctl(KEYCTL_READ, key, (long)text, sizeof(text) - 1, 0) > 0)
		got("read", text);
	else
		refused("read", errno);
	found = keyctl(KEYCTL_SEARCH, KEY_SPEC_USER_KEYRING, (long)"user", (long)"brig-escape", 0);
	tried("search", found);
	tried("request", syscall(SYS_request_key, "user", "brig-escape", NULL, KEY_SPEC_PROCESS_KEYRING));
	tried("add", syscall(SYS_add_key, "user", "brig-escape-new", "x", (size_t)1, KEY_SPEC_PROCESS_KEYRING));
	tried("session", keyctl(KEYCTL_JOIN_SESSION_KEYRING, 0, 0, 0, 0));
	tried("persistent", keyctl(KEYCTL_GET_PERSISTENT, -1, KEY_SPEC_PROCESS_KEYRING, 0, 0));
	return ended();
}
