/* Messages between brigd and brig-spawn: an accepted one has ended strings of plain letters and its own size. */
#include "wire/spawnd.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

static void ended(const char *field, size_t size)
{
	if (memchr(field, '\0', size) == NULL || strpbrk(field, " \n\033%;") != NULL)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	struct spawnd_ask a;
	struct spawnd_tell t;
	const char *text = NULL;
	struct err e = ERR_INIT;

	if (spawnd_ask_check(p, n, &a, &text, &e) == 0) {
		ended(a.id, sizeof(a.id));
		ended(a.template, sizeof(a.template));
		ended(a.tenant, sizeof(a.tenant));
		if (text + a.text_n != (const char *)p + n || a.text_n > SPAWND_TEXT_MAX ||
		    (a.op != SPAWND_PING && a.op != SPAWND_LIST && !spawnd_id_ok(a.id)))
			abort();
	}
	if (spawnd_tell_check(p, n, &t, &text, &e) == 0) {
		ended(t.id, sizeof(t.id));
		ended(t.template, sizeof(t.template));
		if (text + t.text_n != (const char *)p + n || memchr(t.why, '\0', sizeof(t.why)) == NULL)
			abort();
	}
	return 0;
}
