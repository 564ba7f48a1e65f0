#pragma once
/* Checked arithmetic on untrusted numbers, and little-endian loads and stores. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* True when the result fits; *ret holds it only then. */
static inline bool add_u64(uint64_t a, uint64_t b, uint64_t *ret)
{
	return !__builtin_add_overflow(a, b, ret);
}
static inline bool mul_u64(uint64_t a, uint64_t b, uint64_t *ret)
{
	return !__builtin_mul_overflow(a, b, ret);
}

/* The value of a hexadecimal digit of either case, -1 for any other byte. */
static inline int hex_digit(uint8_t c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 32;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static inline uint16_t load_le16(const void *p)
{
	uint16_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}
static inline uint32_t load_le32(const void *p)
{
	uint32_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}
static inline uint64_t load_le64(const void *p)
{
	uint64_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}
static inline void store_le16(void *p, uint16_t v) { memcpy(p, &v, sizeof(v)); }
static inline void store_le32(void *p, uint32_t v) { memcpy(p, &v, sizeof(v)); }
static inline void store_le64(void *p, uint64_t v) { memcpy(p, &v, sizeof(v)); }

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "brig runs on little-endian hosts");

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))
#define MIN(a, b)    ((a) < (b) ? (a) : (b))
#define MAX(a, b)    ((a) > (b) ? (a) : (b))
