/* Rules as people write them: what is accepted is one text that the gate takes too, and permits nothing below the floor. */
#include "egress/egress.h"
#include "gate/judge.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct resolve_addr meta = {.a = {169, 254, 169, 254}};
	struct judge_dest d = {.named = true, .port = 443, .name = "x.allowed.test"};
	struct judge_verdict v;
	const char *why = NULL;
	struct judge *j = NULL;
	struct err e = ERR_INIT;
	struct egress g;
	char *text = NULL;

	egress_init(&g);
	if (egress_add_text(&g, "f.yaml", (const char *)data, size, &e) < 0) {
		if (e.kind != ERR_INTERNAL && strncmp(e.msg, "f.yaml:", 7) != 0)
			abort(); /* a refusal that does not say where */
	} else if (egress_finish(&g, &text, &e) == 0) {
		if (judge_new(text, strlen(text), &j, &e) < 0)
			abort();
		judge_decide(j, &d, &v);
		if (v.allow && judge_addr(j, &d, &v, &meta, false, &why))
			abort();
		judge_free(j);
		free(text);
	}
	egress_done(&g);
	return 0;
}
