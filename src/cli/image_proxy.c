#include "cli/image_proxy.h"

#include "base/quote.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

/* HOST, [V6] or a name, and the port; false when it is none. */
static bool split(const char *s, char host[256], char port[8])
{
	size_t n = strlen(s);
	const char *colon;

	if (n > 0 && s[n - 1] == '/')
		n--;
	colon = memrchr(s, ':', n);
	if (colon == NULL || colon == s || (size_t)(s + n - colon) > 6 || (size_t)(s + n - colon) < 2)
		return false;
	(void)snprintf(port, 8, "%.*s", (int)(s + n - colon - 1), colon + 1);
	if (strspn(port, "0123456789") != strlen(port))
		return false;
	n = (size_t)(colon - s);
	if (s[0] == '[' && s[n - 1] == ']') {
		s++;
		n -= 2;
	}
	if (n == 0 || n > 255 || strcspn(s, "/@[]") < n)
		return false;
	(void)snprintf(host, 256, "%.*s", (int)n, s);
	return true;
}

static int reference(const char *credentials, struct err *e)
{
	char q[QUOTE_MAX];

	if ((strncmp(credentials, "env:", 4) != 0 && strncmp(credentials, "file:/", 6) != 0) || strlen(credentials) > 256 ||
	    strpbrk(credentials, "\n\r") != NULL)
		return err_set(e, ERR_INVALID, EINVAL, "--proxy-credentials %s: env:NAME or file:/PATH is needed, where USER:PASSWORD is found",
			       quote(credentials, q));
	return 0;
}

int image_proxy_rules(const char *text, const char *credentials, char rules[IMAGE_PROXY_TEXT], struct err *e)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV | AI_ADDRCONFIG}, *all = NULL;
	char host[256], port[8], number[NI_MAXHOST], q[QUOTE_MAX];
	const char *s = text;
	bool v6;
	int r;

	if (strncasecmp(s, "http://", 7) == 0)
		s += 7;
	if (strchr(s, '@') != NULL)
		return err_set(e, ERR_INVALID, EINVAL, "--proxy: no credentials in it, everybody sees a command line: --proxy-credentials");
	if (!split(s, host, port))
		return err_set(e, ERR_INVALID, EINVAL, "--proxy %s: [http://]HOST:PORT is needed", quote(text, q));
	if (credentials != NULL && (r = reference(credentials, e)) < 0)
		return r;
	r = getaddrinfo(host, port, &hints, &all);
	if (r != 0)
		return err_set(e, ERR_NOT_FOUND, ENOENT, "--proxy %s: no address: %s", quote(text, q), gai_strerror(r));
	v6 = all->ai_family == AF_INET6;
	r = getnameinfo(all->ai_addr, all->ai_addrlen, number, sizeof(number), NULL, 0, NI_NUMERICHOST);
	freeaddrinfo(all);
	if (r != 0 || strchr(number, '%') != NULL)
		return err_set(e, ERR_INVALID, EINVAL, "--proxy %s: an address that is not of this link alone is needed", quote(text, q));
	r = snprintf(rules, IMAGE_PROXY_TEXT, "proxy address %s%s%s:%s\nproxy names proxy\n%s%s%s", v6 ? "[" : "", number,
		     v6 ? "]" : "", port, credentials != NULL ? "proxy credentials " : "", credentials != NULL ? credentials : "",
		     credentials != NULL ? "\n" : "");
	return r < 0 || r >= IMAGE_PROXY_TEXT ? err_set(e, ERR_LIMITED, E2BIG, "--proxy: too long") : 0;
}
