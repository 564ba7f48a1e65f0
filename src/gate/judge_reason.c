#include "gate/judge.h"

#include "base/num.h"

#include <string.h>

static const struct judge_reason rows[] = {
#define REASON(word, severity, text) {word, text, SEVERITY_##severity},
#include "gate/reasons.def"
#undef REASON
};

const struct judge_reason *judge_reason(const char *word)
{
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (strcmp(rows[i].word, word) == 0)
			return &rows[i];
	return NULL;
}

const char *judge_severity_name(enum judge_severity s)
{
	static const char *const names[] = {
	    [SEVERITY_INFO] = "info", [SEVERITY_LOW] = "low", [SEVERITY_MEDIUM] = "medium", [SEVERITY_HIGH] = "high"};

	return names[s];
}
