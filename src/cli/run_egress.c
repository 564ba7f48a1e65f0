#include "cli/run_egress.h"

#include "base/cleanup.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* The order of the rules is the profile's, the file's, the command line's; of settings the last one counts. */

int run_egress_word(struct strv *v, enum egress_verb verb, const char *word, struct err *e)
{
	_cleanup_free_ char *kept = NULL;

	if (asprintf(&kept, "%c%s", '0' + (int)verb, word) < 0 || strv_add(v, kept) < 0)
		return err_no_memory(e);
	return 0;
}

static int collect(const struct run_args *a, struct egress *g, struct err *e)
{
	int r = 0;

	if (a->profile.egress != NULL)
		r = egress_add_node(g, a->one[RUN_PROFILE], a->profile.egress, e);
	if (r == 0 && a->one[RUN_EGRESS] != NULL)
		r = egress_add_file(g, a->one[RUN_EGRESS], e);
	for (uint32_t i = 0; r == 0 && i < a->egress.n; i++)
		r = egress_add_word(g, (enum egress_verb)(a->egress.v[i][0] - '0'), a->egress.v[i] + 1, e);
	return r;
}

int run_egress_use(struct run_args *a, struct err *e)
{
	struct egress g;
	int r;

	if (a->egress.n == 0 && a->one[RUN_EGRESS] == NULL && a->profile.egress == NULL) {
		if (a->one[RUN_EGRESS_LOG] != NULL)
			return err_set(e, ERR_INVALID, EINVAL,
				       "--egress-log: nothing may be reached, so there is nothing to decide; give --allow or --egress");
		return 0;
	}
	egress_init(&g);
	r = collect(a, &g, e);
	if (r == 0)
		r = egress_finish(&g, &a->spec.egress, e);
	egress_done(&g);
	return r;
}
