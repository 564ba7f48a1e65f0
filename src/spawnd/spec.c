#include "spawnd/spawnd.h"
/*
 * From a template and an ask to the settings of a sandbox. Profile, image and what may leave are the operator's; the
 * asker, who may be anybody that has taken brigd over, chooses an id, a life span, and less of what may leave, or, where
 * the template says so, which public addresses and names may be reached.
 */
#include "base/cleanup.h"
#include "base/num.h"
#include "base/quote.h"
#include "core/profile.h"
#include "core/yaml_tree.h"
#include "egress/egress.h"
#include "image/image.h"
#include "spawn/trust_env.h"
#include "tier/tier.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* A document of the asker's names no secret, resolver, certificate or private range: it may hold these keys alone. */
static const char *const top_narrow[] = {"version", "deny", NULL};
static const char *const top_set[] = {"version", "deny", "rules", NULL};
static const char *const rule_keys[] = {"id", "host", "cidr", "ports", "protocol", NULL};
static const char asked[] = "network";

/* Ranges that are somebody's own (gate/judge_addr.c has those that no rule opens): never by an asker's rule. */
static const char *const private_ranges[] = {
    "10.0.0.0/8:1-65535",     "172.16.0.0/12:1-65535",  "192.168.0.0/16:1-65535",  "100.64.0.0/10:1-65535",
    "192.0.0.0/24:1-65535",   "192.0.2.0/24:1-65535",   "198.51.100.0/24:1-65535", "203.0.113.0/24:1-65535",
    "192.88.99.0/24:1-65535", "240.0.0.0/4:1-65535",    "[fc00::/7]:1-65535",      "[fec0::/10]:1-65535"};

static int put(char **dst, const char *text, struct err *e)
{
	char *copy = strdup(text);

	if (copy == NULL)
		return err_no_memory(e);
	free(*dst);
	*dst = copy;
	return 0;
}

static int only(const struct yaml_node *map, const char *const *keys, struct err *e)
{
	char q[QUOTE_MAX];

	for (const struct yaml_node *n = map->kind == YAML_MAP ? map->child : NULL; n != NULL; n = n->next) {
		const char *const *k = keys;

		while (*k != NULL && strcmp(*k, n->key) != 0)
			k++;
		if (*k == NULL)
			return err_set(e, ERR_DENIED, EPERM, "%s:%d: %s is the operator's to set", asked, n->line,
				       quote_bare(n->key, q));
	}
	return 0;
}

static int only_rules(const struct yaml_node *root, struct err *e)
{
	const struct yaml_node *list = yaml_get(root, "rules");
	int r = 0;

	for (const struct yaml_node *n = list != NULL && list->kind == YAML_LIST ? list->child : NULL; r == 0 && n != NULL;
	     n = n->next)
		r = only(n, rule_keys, e);
	return r;
}

static int add_asked(struct egress *g, const struct spawnd_ask *a, const char *text, struct err *e)
{
	bool set = a->egress == SPAWND_EGRESS_SET;
	struct yaml_node *root = NULL;
	int r = yaml_tree(asked, "file of egress rules", text, a->text_n, &root, e);

	if (r == 0)
		r = only(root, set ? top_set : top_narrow, e);
	if (r == 0)
		r = only_rules(root, e);
	if (r == 0 && yaml_get(root, "version") == NULL)
		r = err_set(e, ERR_INVALID, EINVAL, "%s: version is missing", asked);
	for (size_t i = 0; r == 0 && set && i < ARRAY_LEN(private_ranges); i++)
		r = egress_add_word(g, EGRESS_DENY, private_ranges[i], e);
	if (r == 0)
		r = egress_add_node(g, asked, root, e);
	yaml_tree_free(root);
	return r;
}

/* What a name stands for that a trusted proxy resolves is not judged: the private ranges of a caller's rules would not hold. */
static int proxy_of_callers(const struct config_template *t, const struct profile *p, struct err *e)
{
	const struct yaml_node *proxy = t->any_egress && p->egress != NULL ? yaml_get(p->egress, "proxy") : NULL;
	const struct yaml_node *names = proxy != NULL && proxy->kind == YAML_MAP ? yaml_get(proxy, "names") : NULL;

	if (names == NULL || names->kind != YAML_WORD || strcmp(names->text, "proxy") != 0)
		return 0;
	return err_set(e, ERR_INVALID, EINVAL, "template %s: its callers say what may leave (egress: any), so its proxy needs names: gate",
		       t->name);
}

/* It is spoken to by the gate alone: through itself it would take callers where their own rules cannot. */
static int add_proxy(struct egress *g, const char *file, const struct yaml_node *rules, struct err *e)
{
	const struct yaml_node *proxy = yaml_get(rules, "proxy");
	int r = egress_add_proxy(g, file, rules, e);

	return r < 0 || proxy == NULL ? r : egress_add_word(g, EGRESS_DENY, yaml_get(proxy, "address")->text, e);
}

static int set_egress(const struct config_template *t, const struct profile *p, const struct spawnd_ask *a,
		      const char *text, struct spec *s, struct err *e)
{
	uint32_t how = a != NULL ? a->egress : (uint32_t)SPAWND_EGRESS_TEMPLATE;
	const char *file = t->profile != NULL ? t->profile : t->name;
	struct egress g;
	int r = 0;

	if (how == SPAWND_EGRESS_SET && !t->any_egress)
		return err_set(e, ERR_DENIED, EPERM, "template %s: what may leave is the operator's to say (egress: narrow)",
			       t->name);
	r = proxy_of_callers(t, p, e);
	if (r < 0)
		return r;
	if (how == SPAWND_EGRESS_NONE || (how != SPAWND_EGRESS_SET && p->egress == NULL))
		return 0; /* nothing may leave */
	egress_init(&g);
	if (how != SPAWND_EGRESS_SET)
		r = egress_add_node(&g, file, p->egress, e);
	else if (p->egress != NULL)
		r = add_proxy(&g, file, p->egress, e);
	if (r == 0 && how != SPAWND_EGRESS_TEMPLATE)
		r = add_asked(&g, a, text, e);
	if (r == 0)
		r = egress_finish(&g, &s->egress, e);
	egress_done(&g);
	return r == 0 ? trust_env(s, e) : r;
}

static int set_image(const struct config_template *t, struct spec *s, struct err *e)
{
	int r = image_use(s, e);

	if (r < 0 && t->image_or_host && e->kind == ERR_NOT_FOUND)
		r = put(&s->image, "host", e);
	return r;
}

static int merge(const struct config_template *t, const struct spawnd_ask *a, const char *text, struct spec *s,
		 struct profile *p, struct err *e)
{
	int r = env_put(&s->env, "LANG=C.UTF-8") < 0 ? err_no_memory(e) : 0;

	if (r == 0 && t->profile != NULL)
		r = profile_read(t->profile, s, p, e);
	if (r == 0 && profile_has(p, PROFILE_TIMEOUT))
		r = err_set(e, ERR_INVALID, EINVAL, "%.100s: timeout: of a template's sandboxes it is the caller's to say, up "
			    "to max_timeout of the configuration", t->profile);
	if (r == 0 && t->image != NULL)
		r = put(&s->image, t->image, e);
	if (r == 0 && s->image == NULL)
		r = put(&s->image, "host", e);
	if (r == 0 && s->tier == NULL)
		r = put(&s->tier, tier_by_id((enum tier_id)0)->name, e);
	if (r == 0 && !profile_has(p, PROFILE_DISK))
		spec_fit_disk(s);
	if (r == 0 && a != NULL)
		r = set_image(t, s, e);
	return r == 0 ? set_egress(t, p, a, text, s, e) : r;
}

int spawnd_spec(const struct config_template *t, const struct spawnd_ask *ask, const char *text, struct spec *ret,
		struct err *e)
{
	struct profile p = {.name = NULL};
	int r;

	spec_init(ret);
	ret->sudo = SUDO_ANY; /* what clients of this API expect; a profile may say no */
	if (ask != NULL) {
		_Static_assert(sizeof(ret->id) > SPAWND_ID_MAX, "an id has room");
		memcpy(ret->id, ask->id, SPAWND_ID_MAX + 1); /* checked: it ends there at the latest */
		ret->timeout_ms = ask->timeout_ms;
	}
	r = merge(t, ask, text, ret, &p, e);
	profile_done(&p);
	if (r == 0 && ask != NULL)
		r = spec_check(ret, e);
	return r;
}
