#include "gate/judge_priv.h"

#include "base/quote.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/*
 * One rule as a word: HOST:PORTS[/PROTOCOL][@NET[,NET]].
 * HOST: a name, *.name (one label more), **.name (one or more), an address, or a CIDR range. PORTS: numbers and
 * ranges with commas. PROTOCOL: tls, http, ssh, postgres, tcp. After @: private ranges the name may stand for.
 */

static bool is_label_char(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

/* A last label that an old parser could take for part of an IPv4 address. */
static bool is_number(const char *s, size_t n)
{
	size_t hex = n > 2 && s[0] == '0' && s[1] == 'x' ? 2 : 0;

	for (size_t i = hex; i < n; i++)
		if (!((s[i] >= '0' && s[i] <= '9') || (hex != 0 && s[i] >= 'a' && s[i] <= 'f')))
			return false;
	return true;
}

int name_canon(const char *s, size_t n, uint32_t least, char out[JUDGE_NAME_MAX + 1])
{
	size_t start = 0;
	uint32_t labels = 0;

	if (n > 0 && s[n - 1] == '.')
		n--;
	if (n == 0 || n > JUDGE_NAME_MAX)
		return -EINVAL;
	for (size_t i = 0; i <= n; i++) {
		char c = i < n ? s[i] : '.';

		if (c >= 'A' && c <= 'Z')
			c = (char)(c - 'A' + 'a');
		if (c == '.') {
			if (i == start || i - start > 63 || out[start] == '-' || out[i - 1] == '-')
				return -EINVAL;
			labels++;
			if (i == n && (labels < least || is_number(out + start, n - start)))
				return -EINVAL;
			start = i + 1;
		} else if (!is_label_char(c)) {
			return -EINVAL;
		}
		out[i] = i < n ? c : '\0';
	}
	return (int)n;
}

int net_parse(const char *s, size_t n, struct net_of *ret)
{
	char text[64];
	char *slash, *end;
	unsigned long bits;

	if (n == 0 || n >= sizeof(text))
		return -EINVAL;
	memcpy(text, s, n);
	text[n] = '\0';
	*ret = (struct net_of){.bits = 0};
	slash = strchr(text, '/');
	if (slash != NULL)
		*slash = '\0';
	if (inet_pton(AF_INET, text, ret->net.a) == 1)
		ret->net.v6 = false;
	else if (inet_pton(AF_INET6, text, ret->net.a) == 1)
		ret->net.v6 = true;
	else
		return -EINVAL;
	ret->bits = ret->net.v6 ? 128 : 32;
	if (slash != NULL) {
		if (slash[1] < '0' || slash[1] > '9')
			return -EINVAL;
		bits = strtoul(slash + 1, &end, 10);
		if (*end != '\0' || bits > ret->bits)
			return -EINVAL;
		ret->bits = (uint32_t)bits;
	}
	for (uint32_t b = ret->bits; b < (ret->net.v6 ? 128u : 32u); b++)
		if ((ret->net.a[b / 8] & (0x80 >> b % 8)) != 0)
			return -EINVAL; /* bits outside the mask: not what was meant */
	return 0;
}

bool net_has(const struct net_of *n, const struct resolve_addr *a)
{
	return n->net.v6 == a->v6 && addr_in(a->a, n->net.a, n->bits);
}

void net_last(const struct net_of *n, uint8_t out[16])
{
	memcpy(out, n->net.a, 16);
	for (uint32_t b = n->bits; b < (n->net.v6 ? 128u : 32u); b++)
		out[b / 8] |= (uint8_t)(0x80 >> b % 8);
}

static int parse_port(const char **p, const char *end, uint16_t *ret)
{
	uint32_t v = 0;
	const char *s = *p;

	while (s < end && *s >= '0' && *s <= '9' && v <= 65535)
		v = v * 10 + (uint32_t)(*s++ - '0');
	if (s == *p || v == 0 || v > 65535)
		return -EINVAL;
	*p = s;
	*ret = (uint16_t)v;
	return 0;
}

static int parse_ports(const char *s, size_t n, struct rule *r)
{
	const char *end = s + n;

	for (;;) {
		uint32_t i = r->ports_n;

		if (i == RULE_PORTS_MAX || parse_port(&s, end, &r->first[i]) < 0)
			return -EINVAL;
		r->last[i] = r->first[i];
		if (s < end && *s == '-') {
			s++;
			if (parse_port(&s, end, &r->last[i]) < 0 || r->last[i] < r->first[i])
				return -EINVAL;
		}
		r->ports_n++;
		if (s == end)
			return 0;
		if (*s++ != ',')
			return -EINVAL;
	}
}

static const struct {
	const char *name;
	enum judge_check check;
	uint16_t port; /* whose default it is */
} protocols[] = {{"tls", CHECK_TLS, 443},  {"http", CHECK_HTTP, 80},   {"ssh", CHECK_SSH, 22},
		 {"postgres", CHECK_POSTGRES, 5432}, {"tcp", CHECK_NONE, 0}};

static int parse_protocol(const char *s, size_t n, struct rule *r)
{
	for (size_t i = 0; i < ARRAY_LEN(protocols); i++)
		if (strlen(protocols[i].name) == n && memcmp(protocols[i].name, s, n) == 0) {
			r->check = protocols[i].check;
			return 0;
		}
	return -EINVAL;
}

/* Without a word: what the port is for, if it is one port of the well-known ones. */
static void default_protocol(struct rule *r)
{
	r->check = CHECK_NONE;
	for (size_t i = 0; i < ARRAY_LEN(protocols); i++)
		if (r->kind != RULE_CIDR && r->ports_n == 1 && r->first[0] == r->last[0] && protocols[i].port == r->first[0])
			r->check = protocols[i].check;
}

static int parse_host(const char *s, size_t n, uint32_t labels, struct rule *r)
{
	int len;

	if (n > 2 && s[0] == '[' && s[n - 1] == ']')
		return net_parse(s + 1, n - 2, &r->nets[0]) < 0 ? -EINVAL : (r->kind = RULE_CIDR, r->nets_n = 1, 0);
	if (net_parse(s, n, &r->nets[0]) == 0) {
		r->kind = RULE_CIDR;
		r->nets_n = 1;
		return 0;
	}
	r->kind = RULE_EXACT;
	if (n > 3 && memcmp(s, "**.", 3) == 0) {
		r->kind = RULE_MANY;
		s += 3;
		n -= 3;
	} else if (n > 2 && memcmp(s, "*.", 2) == 0) {
		r->kind = RULE_ONE;
		s += 2;
		n -= 2;
	}
	len = name_canon(s, n, labels, r->name); /* two as a rule: no *.com */
	if (len < 0)
		return len;
	r->name_n = (uint32_t)len;
	return 0;
}

static int refuse(const char *word, size_t n, const char *why, struct err *e)
{
	char q[QUOTE_MAX];

	return err_set(e, ERR_INVALID, EINVAL, "%s: %s", quote_n(word, n, q), why);
}

int rule_parse(const char *word, size_t n, uint32_t labels, struct rule *ret, struct err *e)
{
	const char *s = word, *end = word + n, *at, *colon = NULL, *slash = NULL;

	*ret = (struct rule){.names_max = WILD_NAMES_DEFAULT, .label_max = WILD_LABEL_DEFAULT};
	at = memchr(s, '@', n);
	for (const char *p = s; p < (at != NULL ? at : end); p++)
		if (*p == ':')
			colon = p; /* the last: IPv6 ranges have more */
	if (colon == NULL)
		return refuse(word, n, "a port is needed: HOST:PORT", e);
	if (parse_host(s, (size_t)(colon - s), labels, ret) < 0)
		return refuse(word, n, "the host is neither a name with two labels, *.name, **.name nor an address range", e);
	slash = memchr(colon, '/', (size_t)((at != NULL ? at : end) - colon));
	if (parse_ports(colon + 1, (size_t)((slash != NULL ? slash : at != NULL ? at : end) - colon - 1), ret) < 0)
		return refuse(word, n, "ports are numbers from 1 to 65535, ranges and commas, at most 16: 443 or 80,8000-8099", e);
	default_protocol(ret);
	if (slash != NULL && parse_protocol(slash + 1, (size_t)((at != NULL ? at : end) - slash - 1), ret) < 0)
		return refuse(word, n, "the protocol is one of tls, http, ssh, postgres, tcp", e);
	if (ret->kind == RULE_CIDR && ret->check != CHECK_NONE && ret->check != CHECK_SSH)
		return refuse(word, n, "an address range has no name to compare: its protocol is tcp or ssh", e);
	while (at != NULL && at < end) {
		const char *next = memchr(at + 1, ',', (size_t)(end - at - 1));
		const char *stop = next != NULL ? next : end;

		if (ret->kind == RULE_CIDR || ret->nets_n == RULE_NETS_MAX ||
		    net_parse(at + 1, (size_t)(stop - at - 1), &ret->nets[ret->nets_n]) < 0)
			return refuse(word, n, "after @ come at most 16 address ranges the name may stand for: @10.20.0.0/16", e);
		ret->nets_n++;
		at = stop;
	}
	return 0;
}
