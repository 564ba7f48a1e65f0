/* Id, port, host and target, a line each: whatever they are, a sandbox's name is one, and a signed target is a file's. */
#include "api/sign.h"
#include "api/where.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	static struct sign_query q;
	char *text = strndup((const char *)p, n), *rest = text, *line[4];
	struct where w;

	for (size_t i = 0; i < 4; i++) {
		line[i] = strsep(&rest, "\n");
		if (line[i] != NULL && line[i][0] == '-' && line[i][1] == '\0')
			line[i] = NULL; /* not there */
	}
	if (line[3] == NULL) {
		free(text);
		return 0;
	}
	where_find(line[0], line[1], line[2], line[3], &w);
	if (w.kind == WHERE_BOX &&
	    (w.port == 0 || w.id[0] == '\0' || strlen(w.id) > WHERE_ID_MAX ||
	     strspn(w.id, "abcdefghijklmnopqrstuvwxyz0123456789") != strlen(w.id)))
		abort();
	if (w.kind == WHERE_SIGNED && strncmp(line[3], "/files?", 7) != 0)
		abort();
	if ((w.kind == WHERE_BAD) != (w.why != NULL))
		abort();
	(void)where_internal(line[3]);
	sign_read(line[3], &q);
	if (q.bad != NULL && sign_fits(&q, "read", "t"))
		abort();
	(void)sign_over(&q, 1);
	free(text);
	return 0;
}
