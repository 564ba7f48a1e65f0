#include "gate/judge_priv.h"

#include <string.h>

/*
 * The address floor: what no rule opens, and what only a rule that names the range opens (IANA special-purpose
 * registries, RFC 6890; RFC 6598, RFC 6052, RFC 3056, RFC 4380, RFC 5214). Addresses that carry an IPv4 address inside
 * are judged by that too.
 */

struct block {
	uint8_t a[16];
	uint8_t bits;
	enum floor_class is;
};

static const struct block v4[] = {
    {{0}, 8, FLOOR_NEVER},		   /* this network */
    {{127}, 8, FLOOR_NEVER},		   /* loopback */
    {{169, 254}, 16, FLOOR_NEVER},	   /* link-local, metadata services */
    {{198, 18}, 15, FLOOR_NEVER},	   /* where the made-up addresses are */
    {{224}, 4, FLOOR_NEVER},		   /* multicast */
    {{255, 255, 255, 255}, 32, FLOOR_NEVER}, /* broadcast */
    {{10}, 8, FLOOR_NAMED},
    {{172, 16}, 12, FLOOR_NAMED},
    {{192, 168}, 16, FLOOR_NAMED},
    {{100, 64}, 10, FLOOR_NAMED}, /* carrier-grade NAT */
    {{192, 0, 0}, 24, FLOOR_NAMED},
    {{192, 0, 2}, 24, FLOOR_NAMED},
    {{192, 88, 99}, 24, FLOOR_NAMED},
    {{198, 51, 100}, 24, FLOOR_NAMED},
    {{203, 0, 113}, 24, FLOOR_NAMED},
    {{240}, 4, FLOOR_NAMED},
};

static const struct block v6[] = {
    {{0xff}, 8, FLOOR_NEVER},
    {{0xfe, 0x80}, 10, FLOOR_NEVER},
    {{0xfe, 0xc0}, 10, FLOOR_NAMED},
    {{0xfc}, 7, FLOOR_NAMED},
    {{0x20, 0x01, 0x0d, 0xb8}, 32, FLOOR_NAMED},
    {{0x20, 0x01}, 23, FLOOR_NAMED},
    {{0x01}, 64, FLOOR_NAMED},
    {{0x3f, 0xff}, 20, FLOOR_NAMED},
    {{0x5f}, 16, FLOOR_NAMED},
};

bool addr_in(const uint8_t *a, const uint8_t *net, uint32_t bits)
{
	uint32_t whole = bits / 8, rest = bits % 8;

	if (memcmp(a, net, whole) != 0)
		return false;
	return rest == 0 || ((a[whole] ^ net[whole]) & (uint8_t)(0xff << (8 - rest))) == 0;
}

static enum floor_class worst(const struct block *b, size_t n, const uint8_t *a)
{
	enum floor_class is = FLOOR_OPEN;

	for (size_t i = 0; i < n; i++)
		if (addr_in(a, b[i].a, b[i].bits) && b[i].is > is)
			is = b[i].is;
	return is;
}

static enum floor_class class4(const uint8_t *a) { return worst(v4, ARRAY_LEN(v4), a); }

/* An address that carries another: never better than what it carries, nor than a range to be named. */
static enum floor_class carried(const uint8_t *a)
{
	enum floor_class c = class4(a);

	return c > FLOOR_NAMED ? c : FLOOR_NAMED;
}

enum floor_class floor_of(const struct resolve_addr *x)
{
	static const uint8_t zero[16], nat64[12] = {0, 0x64, 0xff, 0x9b}, isatap[4] = {0, 0, 0x5e, 0xfe};
	const uint8_t *a = x->a;
	uint8_t inv[4];
	enum floor_class is;

	if (!x->v6)
		return class4(a);
	if (memcmp(a, zero, 15) == 0 && a[15] <= 1)
		return FLOOR_NEVER; /* :: and ::1 */
	if (memcmp(a, zero, 10) == 0 || (memcmp(a, zero, 8) == 0 && a[8] == 0xff && a[9] == 0xff))
		return carried(a + 12); /* ::a.b.c.d, ::ffff:a.b.c.d, ::ffff:0:a.b.c.d */
	if (memcmp(a, nat64, 12) == 0 || (memcmp(a, nat64, 4) == 0 && a[4] == 0 && a[5] == 1))
		return carried(a + 12);
	if (a[0] == 0x20 && a[1] == 0x02)
		return carried(a + 2); /* 6to4 */
	if (a[0] == 0x20 && a[1] == 0x01 && a[2] == 0 && a[3] == 0) {
		for (int i = 0; i < 4; i++)
			inv[i] = (uint8_t)~a[12 + i];
		is = carried(inv); /* Teredo: server plain, client inverted */
		return carried(a + 4) > is ? carried(a + 4) : is;
	}
	if (memcmp(a + 9, isatap + 1, 3) == 0 && (a[8] & 0xfd) == 0)
		return carried(a + 12);
	return worst(v6, ARRAY_LEN(v6), a);
}
