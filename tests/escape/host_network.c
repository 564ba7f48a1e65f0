/*
 * Reaches services of the host by its loopback addresses.
 *
 * group: sockets
 * tries: connect and send to the caller's services on 127.0.0.1 by TCP and UDP, by the address 0.0.0.0 and the mapped one
 * control: plain
 * shows: socket
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "attack.h"

/* UDP is sent and waits for its answer; loopback answers at once. */
static long reach(int type, const char *address, long port)
{
	struct sockaddr_in a4 = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
	struct sockaddr_in6 a6 = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port)};
	int six = inet_pton(AF_INET, address, &a4.sin_addr) != 1;
	const struct timeval limit = {.tv_sec = 1};
	int s = socket(six ? AF_INET6 : AF_INET, type | SOCK_CLOEXEC, 0);
	char answer;
	long r;

	if (six && inet_pton(AF_INET6, address, &a6.sin6_addr) != 1)
		return -1;
	(void)setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	r = six ? connect(s, (const struct sockaddr *)&a6, sizeof(a6)) : connect(s, (const struct sockaddr *)&a4, sizeof(a4));
	if (r == 0 && type == SOCK_DGRAM)
		r = send(s, "x", 1, 0) == 1 && recv(s, &answer, 1, 0) == 1 ? 0 : -1;
	if (s >= 0) {
		int e = errno;

		(void)close(s);
		errno = e;
	}
	return r;
}

int main(int argc, char **argv)
{
	long port = param_number(argv, "port");

	(void)argc;
	tried("tcp", reach(SOCK_STREAM, "127.0.0.1", port));
	tried("udp", reach(SOCK_DGRAM, "127.0.0.1", port));
	tried("tcp-zero", reach(SOCK_STREAM, "0.0.0.0", port));
	tried("tcp-mapped", reach(SOCK_STREAM, "::ffff:127.0.0.1", port));
	return ended();
}
