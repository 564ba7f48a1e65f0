#include "base/units.h"
#include "base/num.h"
#include "harness/test.h"

#include <string.h>

TEST(sizes)
{
	static const struct {
		const char *text;
		uint64_t want;
	} rows[] = {
	    {"0", 0},
	    {"4096", 4096},
	    {"1k", 1024},
	    {"1K", 1024},
	    {"512KiB", 512 * 1024},
	    {"64M", 64ULL << 20},
	    {"64Mi", 64ULL << 20},
	    {"1GiB", 1ULL << 30},
	    {"2T", 2ULL << 40},
	    {"18446744073709551615", UINT64_MAX},
	    {"16777215TiB", 16777215ULL << 40},
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		uint64_t v = 1;

		CHECK(units_size(rows[i].text, &v, NULL) == 0);
		CHECK(v == rows[i].want);
	}
}

TEST(bad_sizes_name_the_place)
{
	static const struct {
		const char *text, *says;
	} rows[] = {
	    {"", "too early"},       {"-1", "character 1"},   {"+1", "character 1"},
	    {" 1", "character 1"},   {"1 ", "character 2"},   {"1 M", "character 2"},
	    {"1MB", "character 3"},  {"1X", "character 2"},   {"1.5G", "whole number"},
	    {"1e3", "character 2"},  {"0x10", "character 2"}, {"1MiBs", "character 5"},
	    {"M", "character 1"},    {"1\033", "code 27"},    {"18446744073709551616", "too large"},
	    {"16777216T", "too large"}, {"99999999999999999999999", "too large"},
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct err e = ERR_INIT;
		uint64_t v = 77;

		CHECK(units_size(rows[i].text, &v, &e) < 0);
		CHECK(v == 77); /* untouched */
		if (strstr(e.msg, rows[i].says) == NULL)
			printf("# %s: %s\n", rows[i].text, e.msg);
		CHECK(strstr(e.msg, rows[i].says) != NULL);
	}
}

TEST(durations)
{
	static const struct {
		const char *text;
		uint64_t want;
	} rows[] = {
	    {"0", 0},         {"10", 10000},        {"1.5", 1500},       {"0.001", 1},
	    {"500ms", 500},   {"10s", 10000},       {"5m", 300000},      {"2h", 7200000},
	    {"1h30m", 5400000}, {"1m500ms", 60500}, {"1.5h", 5400000},   {"1h1m1.5s", 3661500},
	    {"2d", 172800000},
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		uint64_t v = 1;

		CHECK(units_duration(rows[i].text, &v, NULL) == 0);
		CHECK(v == rows[i].want);
	}
}

TEST(bad_durations)
{
	static const char *const rows[] = {"",     "-1s",  "s",      "1x",    "1s1m",  "1m1m", "1h30",
					   "1.s",  ".5",   "1.0001", "1 s",   "1s ",   "1.5ms", "1.5h1m",
					   "1e3s", "inf",  "nan",    "99999999999999999999s",
					   "18446744073709551615d"};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct err e = ERR_INIT;
		uint64_t v = 77;
		int r = units_duration(rows[i], &v, &e);

		if (r >= 0)
			printf("# '%s' was taken\n", rows[i]);
		CHECK(r < 0);
		CHECK(v == 77 && e.msg[0] != '\0');
	}
}

TEST(cpus)
{
	uint32_t v = 0;

	CHECK(units_cpus("2", &v, NULL) == 0 && v == 2000);
	CHECK(units_cpus("0.5", &v, NULL) == 0 && v == 500);
	CHECK(units_cpus("1.25", &v, NULL) == 0 && v == 1250);
	CHECK(units_cpus("0.001", &v, NULL) == 0 && v == 1);
	CHECK(units_cpus("0.0001", &v, NULL) < 0);
	CHECK(units_cpus("1,5", &v, NULL) < 0);
	CHECK(units_cpus("4294968", &v, NULL) < 0); /* does not fit in thousandths */
	CHECK(units_cpus("-1", &v, NULL) < 0);
	CHECK(units_cpus("", &v, NULL) < 0);
	CHECK(v == 1);
}

TEST(counts)
{
	uint64_t v = 0;

	CHECK(units_count("512", 1000, &v, NULL) == 0 && v == 512);
	CHECK(units_count("1000", 1000, &v, NULL) == 0 && v == 1000);
	CHECK(units_count("1001", 1000, &v, NULL) < 0);
	CHECK(units_count("5k", 1000000, &v, NULL) < 0);
	CHECK(units_count("", 1000, &v, NULL) < 0);
}

TEST(texts)
{
	char t[UNITS_TEXT];

	CHECK(strcmp(units_size_text(64ULL << 20, t), "64 MiB") == 0);
	CHECK(strcmp(units_size_text(1000, t), "1000 bytes") == 0);
	CHECK(strcmp(units_size_text(0, t), "0 bytes") == 0);
	CHECK(strcmp(units_duration_text(1500, t), "1.5s") == 0);
	CHECK(strcmp(units_duration_text(1050, t), "1.05s") == 0);
	CHECK(strcmp(units_duration_text(20, t), "20ms") == 0);
	CHECK(strcmp(units_duration_text(5400000, t), "90m") == 0);
	CHECK(strcmp(units_duration_text(7200000, t), "2h") == 0);
}
TEST_MAIN()
