#include "gate/judge_priv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/*
 * Made-up addresses: each permitted name that was asked for gets the next one of the pool, never to be used for another.
 * An address only names: what it stands for is decided again at each connection. Names below a wildcard are the
 * sandbox's choice, and each goes upstream once: what they can say is bounded.
 */

enum { FIRST_NAME = 256 }; /* offset into the pool: what lies before is the sandbox's own address and its name server's */

static uint32_t slot_of(const char *name, size_t n)
{
	uint64_t h = hash_bytes(HASH_START, name, n);

	return (uint32_t)((h ^ h >> 32) % NAME_SLOTS);
}

int names_find(const struct judge *j, const char *name, size_t n)
{
	uint32_t at = j->names_n > 0 ? j->name_slot[slot_of(name, n)] : 0;

	for (uint32_t i = at; i != 0; i = j->names[i - 1].next)
		if (j->names[i - 1].n == n && memcmp(j->names[i - 1].name, name, n) == 0)
			return (int)i - 1;
	return -1;
}

static uint32_t room(const struct judge *j)
{
	uint32_t host_bits = 32 - j->dns.pool4.bits;

	return MIN(j->dns.max_names, (1u << host_bits) - FIRST_NAME - 1);
}

static bool within_budget(const struct rule *r, const char *name, size_t n, const char **reason)
{
	size_t label = 0;

	if (r->kind == RULE_EXACT)
		return true;
	*reason = "dns_label";
	for (size_t i = 0; i < n - r->name_n; i++) {
		label = name[i] == '.' ? 0 : label + 1;
		if (label > r->label_max)
			return false;
	}
	*reason = "dns_budget";
	return r->names < r->names_max;
}

int names_add(struct judge *j, struct rule *r, const char *name, size_t n, const char **reason)
{
	struct mapped *grown;
	uint32_t *slot;

	if (!within_budget(r, name, n, reason))
		return -EPERM;
	*reason = "dns_budget";
	if (j->names_n >= room(j))
		return -EPERM;
	*reason = "overload";
	if (j->name_slot == NULL && (j->name_slot = calloc(NAME_SLOTS, sizeof(*j->name_slot))) == NULL)
		return -ENOMEM;
	slot = &j->name_slot[slot_of(name, n)];
	if (j->names_n == j->names_cap) {
		uint32_t cap = j->names_cap == 0 ? 16 : j->names_cap * 2;

		grown = realloc(j->names, cap * sizeof(*grown));
		if (grown == NULL)
			return -ENOMEM;
		j->names = grown;
		j->names_cap = cap;
	}
	j->names[j->names_n] = (struct mapped){.name = strndup(name, n), .n = (uint32_t)n, .next = *slot};
	if (j->names[j->names_n].name == NULL)
		return -ENOMEM;
	*slot = ++j->names_n;
	r->names++;
	return 0;
}

/* The number in the address's last 32 bits. */
static void put_number(uint8_t *end, uint32_t v)
{
	for (int i = 1; i <= 4; i++, v >>= 8)
		end[-i] |= (uint8_t)v;
}

void names_addr4(const struct judge *j, uint32_t nr, uint8_t ret[4])
{
	memcpy(ret, j->dns.pool4.net.a, 4);
	put_number(ret + 4, nr + FIRST_NAME);
}

void names_addr6(const struct judge *j, uint32_t nr, uint8_t ret[16])
{
	memcpy(ret, j->dns.pool6.net.a, 16);
	put_number(ret + 16, nr + FIRST_NAME);
}

/* ---- names that are answered with what they stand for ---- */

static uint32_t pin_slot(const struct resolve_addr *a)
{
	uint64_t h = hash_bytes(HASH_START, a->a, sizeof(a->a));

	return (uint32_t)((h ^ h >> 32) % NAME_SLOTS);
}

static bool same_addr(const struct resolve_addr *a, const struct resolve_addr *b)
{
	return a->v6 == b->v6 && memcmp(a->a, b->a, a->v6 ? 16 : 4) == 0;
}

uint32_t pins_of(const struct judge *j, const struct resolve_addr *a, uint32_t *names, uint32_t max)
{
	uint32_t n = 0, at = j->pins_n > 0 ? j->pin_slot[pin_slot(a)] : 0;

	for (uint32_t i = at; i != 0 && n <= max; i = j->pins[i - 1].next) {
		if (!same_addr(&j->pins[i - 1].addr, a))
			continue;
		if (n < max)
			names[n] = j->pins[i - 1].name;
		n++;
	}
	return n;
}

bool pins_add(struct judge *j, const struct resolve_addr *a, uint32_t name)
{
	struct pin *grown;
	uint32_t *slot;

	if (j->pin_slot == NULL && (j->pin_slot = calloc(NAME_SLOTS, sizeof(*j->pin_slot))) == NULL)
		return false;
	slot = &j->pin_slot[pin_slot(a)];
	for (uint32_t i = *slot; i != 0; i = j->pins[i - 1].next)
		if (j->pins[i - 1].name == name && same_addr(&j->pins[i - 1].addr, a))
			return true;
	if (j->pins_n == PINS_MAX)
		return false;
	if (j->pins_n == j->pins_cap) {
		uint32_t cap = j->pins_cap == 0 ? 16 : j->pins_cap * 2;

		grown = realloc(j->pins, cap * sizeof(*grown));
		if (grown == NULL)
			return false;
		j->pins = grown;
		j->pins_cap = cap;
	}
	j->pins[j->pins_n] = (struct pin){.addr = *a, .name = name, .next = *slot};
	*slot = ++j->pins_n;
	return true;
}

static void set_name(const struct judge *j, struct judge_dest *d, uint32_t nr)
{
	d->named = d->pinned = true;
	memcpy(d->name, j->names[nr].name, j->names[nr].n + 1);
}

/* Names that permit the port come first: the others cannot be meant. */
enum { PICK_MAX = 16 };
struct picks {
	struct judge_dest dest[PICK_MAX];
	struct judge_verdict v[PICK_MAX];
	uint32_t n;
	bool many; /* more than fit */
};

static void picks_of(const struct judge *j, const struct judge_dest *d, struct picks *ret)
{
	uint32_t names[PICK_MAX], n = pins_of(j, &d->orig, names, PICK_MAX);

	*ret = (struct picks){.many = n > PICK_MAX};
	for (uint32_t i = 0; i < MIN(n, (uint32_t)PICK_MAX); i++) {
		struct judge_dest *one = &ret->dest[ret->n];

		*one = (struct judge_dest){.port = d->port, .orig = d->orig};
		set_name(j, one, names[i]);
		judge_decide(j, one, &ret->v[ret->n]);
		if (ret->v[ret->n].allow)
			ret->n++;
	}
}

static void pin_dest(const struct judge *j, struct judge_dest *d)
{
	struct picks p;
	uint32_t first;

	if (pins_of(j, &d->orig, &first, 1) == 0)
		return;
	picks_of(j, d, &p);
	if (p.n > 0)
		*d = p.dest[0];
	else
		set_name(j, d, first); /* refused by its name */
	d->choice = p.n > 1 || p.many;
}

int judge_pick(const struct judge *j, struct judge_dest *d, const uint8_t *p, size_t n, const char **reason)
{
	struct judge_hello seen;
	struct picks all;
	bool more = false;

	*reason = "pin_ambiguous";
	picks_of(j, d, &all);
	for (uint32_t i = 0; i < all.n && !all.many; i++) {
		const char *why = NULL;
		int r = -1;

		if (all.v[i].check == CHECK_TLS || all.v[i].check == CHECK_HTTP)
			r = judge_first(all.v[i].check, &all.v[i], &all.dest[i], p, n, &why, &seen);
		if (r > 0) {
			*d = all.dest[i];
			return 1;
		}
		more |= r == 0;
	}
	return more ? 0 : -1;
}

bool judge_dest(const struct judge *j, const struct resolve_addr *orig, uint16_t port, struct judge_dest *ret)
{
	const struct net_of *pool = orig->v6 ? &j->dns.pool6 : &j->dns.pool4;
	uint32_t bytes = orig->v6 ? 16 : 4, nr = 0;
	uint8_t want[16];

	*ret = (struct judge_dest){.port = port, .orig = *orig};
	if (j->dns.pinned) {
		pin_dest(j, ret);
		return true;
	}
	if (!net_has(pool, orig))
		return true;
	for (uint32_t i = bytes - 4; i < bytes; i++)
		nr = nr << 8 | (orig->a[i] & (uint8_t)~pool->net.a[i]);
	nr -= FIRST_NAME; /* wraps for what lies before */
	if (nr >= j->names_n)
		return false;
	if (orig->v6)
		names_addr6(j, nr, want);
	else
		names_addr4(j, nr, want);
	if (memcmp(want, orig->a, bytes) != 0)
		return false; /* other bits of the pool */
	ret->named = true;
	memcpy(ret->name, j->names[nr].name, j->names[nr].n + 1);
	return true;
}

/* ---- which names may be asked for ---- */

enum { MATCHES_MAX = 64 };
struct matches {
	struct rule *best;
	const struct rule *deny[MATCHES_MAX], *allow[MATCHES_MAX];
	uint32_t deny_n, allow_n;
	bool many; /* more than fit */
};

static void collect(void *arg, struct rule *r)
{
	struct matches *m = (struct matches *)arg;

	if (!r->deny && (m->best == NULL || rule_better(r, m->best)))
		m->best = r;
	if (r->deny ? m->deny_n == MATCHES_MAX : m->allow_n == MATCHES_MAX)
		m->many = true;
	else if (r->deny)
		m->deny[m->deny_n++] = r;
	else
		m->allow[m->allow_n++] = r;
}

/* A port of first..last that no deny rule takes. */
static bool some_open(const struct matches *m, uint32_t first, uint32_t last)
{
	for (uint32_t i = 0; i < m->deny_n; i++)
		for (uint32_t k = 0; k < m->deny[i]->ports_n; k++)
			if (first >= m->deny[i]->first[k] && first <= m->deny[i]->last[k]) {
				first = m->deny[i]->last[k] + 1u;
				if (first > last)
					return false;
				i = UINT32_MAX; /* again from the first: another may begin here */
				break;
			}
	return true;
}

struct rule *names_permit(const struct judge *j, const char *name, size_t n, const char **reason, const char **rule)
{
	struct matches m = {.best = NULL};

	*reason = "no_rule";
	*rule = NULL;
	index_each_name(j, name, n, collect, &m);
	if (m.best == NULL)
		return NULL;
	*rule = m.best->id;
	if (m.many)
		return m.best; /* each connection is decided by all of them */
	for (uint32_t i = 0; i < m.allow_n; i++)
		for (uint32_t k = 0; k < m.allow[i]->ports_n; k++)
			if (some_open(&m, m.allow[i]->first[k], m.allow[i]->last[k]))
				return m.best;
	*reason = "deny_rule";
	*rule = m.deny[0]->id;
	return NULL;
}
