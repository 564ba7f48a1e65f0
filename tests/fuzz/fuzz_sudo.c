/* What any process of a sandbox may send to PID 1's `sudo`: a header, then a request; and a reply. */
#include "guest/ask.h"
#include "wire/sudo.h"

#include <stdlib.h>
#include <string.h>

/* What was accepted must be what the child takes it for. */
static void accepted(const uint8_t *msg, size_t n)
{
	struct ask q;
	char **argv, **env;

	if (ask_parse(msg, n, &q) < 0 || q.kind != REQ_EXEC || q.user.n == 0 || q.flags != 0 || ask_fds(&q) != 0 ||
	    q.cwd.p != NULL || q.argc > MSG_ARGS_MAX || q.envc > MSG_ARGS_MAX)
		abort();
	argv = ask_args(&q, F_ARG, 0);
	env = ask_args(&q, F_ENV, 10);
	if (argv == NULL || env == NULL || argv[q.argc] != NULL)
		abort();
	for (uint32_t i = 0; i < q.envc; i++)
		if (strchr(env[i], '=') == NULL || strncmp(env[i], "SUDO_UID=", 9) == 0)
			abort();
	free(argv);
	free(env);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	struct sudo_reply reply;
	uint8_t again[SUDO_HDR];
	int len;

	if (sudo_reply_decode(p, n, &reply) == 0 && memchr(reply.text, '\0', sizeof(reply.text)) == NULL)
		abort();
	if (n < SUDO_HDR)
		return 0;
	len = sudo_header_decode(p);
	if (len >= 0) {
		sudo_header(again, (uint32_t)len);
		if (len > SUDO_REQUEST_MAX || memcmp(again, p, SUDO_HDR) != 0)
			abort();
	}
	/* whatever the header says: the message by itself */
	if (sudo_request_check(p + SUDO_HDR, n - SUDO_HDR) == 0)
		accepted(p + SUDO_HDR, n - SUDO_HDR);
	return 0;
}
