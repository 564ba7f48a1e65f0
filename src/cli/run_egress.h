#pragma once
/* What may leave, from the profile, --egress FILE and the words of the command line together. */
#include "cli/run_args.h"
#include "egress/egress.h"

/* Keep one word of --allow, --allow-cidr or --deny in a list, with what it was for. */
int must_check run_egress_word(struct strv *v, enum egress_verb verb, const char *word, struct err *e);
/* Make a->spec.egress of all of it, NULL where nothing was said. A wrong rule is refused before anything starts. */
int must_check run_egress_use(struct run_args *a, struct err *e);
