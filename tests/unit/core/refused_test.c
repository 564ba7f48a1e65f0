#include "core/refused.h"
#include "harness/test.h"

static uint64_t of(const char *text)
{
	json_t *o = json_loads(text, JSON_DECODE_ANY, NULL);
	uint64_t n = refused_by_record(o);

	json_decref(o);
	return n;
}

TEST(counts)
{
	CHECK(of("{\"event\":\"connect\",\"verdict\":\"deny\"}") == 1);
	CHECK(of("{\"event\":\"dns\",\"verdict\":\"deny\",\"suppressed\":7}") == 7);
	CHECK(of("{\"event\":\"dns\",\"verdict\":\"deny\",\"suppressed\":-7}") == 1);
	CHECK(of("{\"event\":\"connect\",\"verdict\":\"allow\",\"suppressed\":7}") == 0);
	CHECK(of("{\"event\":\"policy\",\"verdict\":\"deny\"}") == 0);
}

TEST(whatever_it_is)
{
	CHECK(of("[1]") == 0);
	CHECK(of("\"deny\"") == 0);
	CHECK(of("{\"verdict\":[\"deny\"]}") == 0);
	CHECK(refused_by_record(NULL) == 0);
}

TEST_MAIN()
