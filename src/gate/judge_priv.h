#pragma once
/* Inside the judge: rules, floor, names. Pure. */
#include "base/num.h"
#include "gate/judge.h"

enum floor_class { FLOOR_OPEN, FLOOR_NAMED /* only by a rule that names the range */, FLOOR_NEVER };
enum floor_class floor_of(const struct resolve_addr *x);
bool addr_in(const uint8_t *a, const uint8_t *net, uint32_t bits);

struct net_of { /* a CIDR range */
	struct resolve_addr net;
	uint32_t bits;
};

enum { RULE_PORTS_MAX = 8, RULE_NETS_MAX = 8, RULES_MAX = 4096, NAMES_MAX = 1024, WILD_NAMES_MAX = 64, WILD_LABEL_MAX = 32 };
enum rule_kind { RULE_EXACT, RULE_ONE /* *.d */, RULE_MANY /* **.d */, RULE_CIDR };

struct rule {
	bool deny;
	enum rule_kind kind;
	enum judge_check check;
	uint32_t ports_n, nets_n, names; /* names: handed out for this wildcard */
	uint16_t first[RULE_PORTS_MAX], last[RULE_PORTS_MAX];
	struct net_of nets[RULE_NETS_MAX]; /* of a CIDR rule: [0] is the rule; else: exceptions from the floor */
	size_t name_n;
	char name[JUDGE_NAME_MAX + 1]; /* of a wildcard: without the stars and their dot */
	char id[24];
};

/* Text to its one form: lower case, one trailing dot dropped, LDH and '_' labels, at least two, the last not
 * a number. Length, or -EINVAL. */
int must_check name_canon(const char *s, size_t n, char out[JUDGE_NAME_MAX + 1]);
int must_check rule_parse(const char *word, size_t n, struct rule *ret, struct err *e); /* [deny ]HOST:PORTS[/PROTO][@NETS] */

/* Made-up address of a name that a rule allows, made when there is none yet. -ENOSPC. */
int must_check judge_address(struct judge *j, const char *name, size_t n, uint8_t ret[4], const char **reason,
			     const char **rule);
