#pragma once
/* What was measured (probe.h) set against what is expected (probe_expect.h). Inside and on the host the same code. */
#include "wire/probe_expect.h"

enum { PROBE_DIFFS_MAX = 24, PROBE_DIFF_TEXT = 120 };

/* What is not as it was asked for. Texts are printable. */
struct probe_diff {
	char wall[48], asked[PROBE_DIFF_TEXT], found[PROBE_DIFF_TEXT];
};
struct probe_diffs {
	struct probe_diff d[PROBE_DIFFS_MAX]; /* the first ones */
	uint32_t n;			      /* may be more than there is room for */
};
void probe_differ(struct probe_diffs *to, const char *wall, const char *asked, const char *found, ...)
    __attribute__((format(printf, 4, 5)));

/* Pure. Every difference is added to *to. */
void probe_compare(const struct probe_expect *x, const struct probe *p, struct probe_diffs *to);
