#include "core/refused.h"

#include <stdbool.h>
#include <string.h>

static bool is(const json_t *o, const char *key, const char *value)
{
	const char *s = json_string_value(json_object_get(o, key));

	return s != NULL && strcmp(s, value) == 0;
}

uint64_t refused_by_record(const json_t *o)
{
	json_int_t suppressed = json_integer_value(json_object_get(o, "suppressed"));

	if (is(o, "event", "policy") || !is(o, "verdict", "deny")) /* other rules are nothing the sandbox did */
		return 0;
	return suppressed > 0 ? (uint64_t)suppressed : 1; /* of those only counted, or one of its own */
}
