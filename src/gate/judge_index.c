#include "gate/judge_priv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/*
 * Which rules a destination matches, whatever their number: names by a hash of each suffix that begins at a label, read from
 * the end so that one pass makes them all; ranges by a hash of the address cut to each prefix length there is. The keys are the
 * caller's, so a sandbox cannot make them collide.
 */

uint64_t hash_bytes(uint64_t h, const void *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		h = (h ^ ((const uint8_t *)p)[i]) * UINT64_C(0x100000001b3);
	return h;
}

static uint64_t hash_back(uint64_t h, const char *s, size_t from, size_t to)
{
	for (size_t i = to; i > from; i--)
		h = hash_bytes(h, &s[i - 1], 1);
	return h;
}

static uint64_t hash_net(const uint8_t *a, uint32_t bits, bool v6)
{
	uint8_t key[18] = {0};

	memcpy(key, a, bits / 8);
	if (bits % 8 != 0)
		key[bits / 8] = (uint8_t)(a[bits / 8] & (0xff << (8 - bits % 8)));
	key[16] = (uint8_t)bits;
	key[17] = v6;
	return hash_bytes(HASH_START, key, sizeof(key));
}

static uint32_t slot_of(const struct judge *j, uint64_t hash)
{
	return (uint32_t)(hash ^ hash >> 32) & (j->slots - 1);
}

int index_make(struct judge *j)
{
	j->slots = 16;
	while (j->slots < j->rules_n * 2)
		j->slots *= 2;
	j->by_name = calloc(j->slots, sizeof(*j->by_name));
	j->by_net = calloc(j->slots, sizeof(*j->by_net));
	if (j->by_name == NULL || j->by_net == NULL)
		return -ENOMEM;
	for (uint32_t i = j->rules_n; i > 0; i--) { /* from the end: a chain begins with the first given */
		struct rule *r = &j->rules[i - 1];
		const struct net_of *net = &r->nets[0];
		uint32_t *head;

		if (r->kind == RULE_CIDR) {
			head = &j->by_net[slot_of(j, hash_net(net->net.a, net->bits, net->net.v6))];
			*(net->net.v6 ? &j->bits6[net->bits] : &j->bits4[net->bits]) = true;
		} else {
			head = &j->by_name[slot_of(j, hash_back(HASH_START, r->name, 0, r->name_n))];
		}
		r->next = *head;
		*head = i;
	}
	return 0;
}

/* Rules named `suffix`; more: the name goes on before it; one: by exactly one label. */
static void each_of(const struct judge *j, uint64_t hash, const char *suffix, size_t n, bool more, bool one, rule_fn fn,
		    void *arg)
{
	for (uint32_t i = j->by_name[slot_of(j, hash)]; i != 0; i = j->rules[i - 1].next) {
		struct rule *r = &j->rules[i - 1];
		bool fits = more ? r->kind == RULE_MANY || (r->kind == RULE_ONE && one) : r->kind == RULE_EXACT;

		if (fits && r->name_n == n && memcmp(r->name, suffix, n) == 0)
			fn(arg, r);
	}
}

void index_each_name(const struct judge *j, const char *name, size_t n, rule_fn fn, void *arg)
{
	const char *dot = memchr(name, '.', n);
	size_t end = n, second = dot != NULL ? (size_t)(dot - name) + 1 : n;
	uint64_t h = HASH_START;

	each_of(j, h, "", 0, true, false, fn, arg);
	while (end > 0) {
		size_t start = end - 1; /* of the suffix that has one label more */

		while (start > 0 && name[start - 1] != '.')
			start--;
		h = hash_back(h, name, start, end);
		each_of(j, h, name + start, n - start, start > 0, start == second, fn, arg);
		if (start == 0)
			break;
		end = start - 1;
		h = hash_bytes(h, ".", 1);
	}
}

void index_each_net(const struct judge *j, const struct resolve_addr *a, rule_fn fn, void *arg)
{
	const bool *there = a->v6 ? j->bits6 : j->bits4;

	for (uint32_t bits = 0; bits <= (a->v6 ? 128u : 32u); bits++) {
		uint32_t i = there[bits] ? j->by_net[slot_of(j, hash_net(a->a, bits, a->v6))] : 0;

		for (; i != 0; i = j->rules[i - 1].next)
			if (j->rules[i - 1].nets[0].bits == bits && net_has(&j->rules[i - 1].nets[0], a))
				fn(arg, &j->rules[i - 1]);
	}
}

bool rule_has_port(const struct rule *r, uint16_t port)
{
	for (uint32_t i = 0; i < r->ports_n; i++)
		if (port >= r->first[i] && port <= r->last[i])
			return true;
	return false;
}

/* Kind, then length; the first given wins a draw; what permits everything comes last. */
bool rule_better(const struct rule *a, const struct rule *b)
{
	uint32_t x = a->kind == RULE_CIDR ? a->nets[0].bits : a->name_n;
	uint32_t y = b->kind == RULE_CIDR ? b->nets[0].bits : b->name_n;

	if (a->audit != b->audit)
		return b->audit;
	return a->kind != b->kind ? a->kind < b->kind : x > y;
}
