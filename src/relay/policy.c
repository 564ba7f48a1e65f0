#include "relay/flow_priv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/*
 * Other rules while connections run: read whole, then put in force in one step, then each connection is decided again.
 */

/* The proxy's credentials that came with these rules; without any, those of the old rules if theirs is the same reference. */
int box_take_secret(const struct box *b, const struct judge *j, const struct judge *old, const char *p, size_t n, char **ret,
		    struct err *e)
{
	const struct judge_proxy *to = judge_proxy(j), *was = old != NULL ? judge_proxy(old) : NULL;

	*ret = NULL;
	if (to == NULL || to->secret == NULL)
		return 0;
	if (n == 0 && was != NULL && was->secret != NULL && strcmp(was->secret, to->secret) == 0) {
		p = b->proxy_secret;
		n = strlen(p);
	}
	if (n == 0 || memchr(p, 0, n) != NULL)
		return err_set(e, ERR_INVALID, EINVAL, "the proxy's credentials did not come");
	*ret = strndup(p, n);
	return *ret == NULL ? err_no_memory(e) : 0;
}

void box_wipe(char *secret)
{
	if (secret != NULL)
		explicit_bzero(secret, strlen(secret));
	free(secret);
}

static bool same_text(const char *a, const char *b)
{
	return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

static int take_policy(struct box *b, const char *rules, size_t n, size_t secret_n, struct resolver **ret_was,
		       struct err *e)
{
	struct judge *j = NULL, *old = b->judge;
	struct resolver *other = NULL;
	char *secret = NULL;
	int r = judge_new(rules, n, &j, e);

	if (r == 0)
		r = box_take_secret(b, j, old, rules + n, secret_n, &secret, e);
	if (r == 0 && !same_text(judge_resolvers(j), judge_resolvers(old)))
		r = box_resolver(b, j, &other, e);
	if (r == 0 && judge_adopt(j, old) < 0)
		r = err_set(e, ERR_INVALID, EINVAL,
			    "the pools of made-up addresses cannot change while the sandbox runs");
	if (r < 0) {
		resolver_free(other);
		judge_free(j);
		box_wipe(secret);
		return r;
	}
	/* the one place where the generation changes: what is decided from here on goes by the new
	 * rules alone */
	b->judge = j;
	judge_free(old);
	box_wipe(b->proxy_secret);
	b->proxy_secret = secret;
	if (other != NULL) {
		*ret_was = b->resolver;
		b->resolver = other;
		lookups_free(b);
	}
	return 0;
}

int box_policy(struct box *b, const char *rules, size_t n, size_t secret_n, struct err *e)
{
	struct resolver *was = NULL;
	int r = take_policy(b, rules, n, secret_n, &was, e);
	struct judge_record rec = {.event = "policy",
				   .allow = r == 0,
				   .reason = r == 0 ? "replaced" : "policy_invalid",
				   .text = r == 0 ? NULL : e->msg};

	if (!box_record(b, &rec) && rec.allow)
		b->rec.lost++;
	if (r == 0)
		flows_judged(b);
	resolver_free(was); /* its questions end unanswered */
	return r;
}

/* ---- connections ---- */

/* Does it go through the proxy that the rules name now? */
static bool same_way(const struct flow *f)
{
	const struct judge_proxy *p = judge_via(f->b->judge, &f->v);
	static const struct judge_peer none;
	const struct judge_peer *to = p != NULL ? &p->at : &none;

	return to->port == f->via.port && to->addr.v6 == f->via.addr.v6 &&
	       memcmp(to->addr.a, f->via.addr.a, sizeof(f->via.addr.a)) == 0 && (p == NULL || p->names == f->by_name || !f->dest.named);
}

static void judge_again(struct flow *f)
{
	struct judge *j = f->b->judge;
	enum judge_check check = f->v.check;
	bool inspect = f->v.inspect;
	const char *reason = NULL;

	judge_decide(j, &f->dest, &f->v);
	f->ruled = f->v.allow;
	if (!f->v.allow) {
		flow_end(f, f->recorded ? "policy" : f->v.reason);
		return;
	}
	judge_count(j, &f->v);
	/* what was not looked at when it came cannot be looked at now, and what goes another way is not moved */
	if (f->recorded && !same_way(f))
		flow_end(f, "policy");
	else if (f->state != F_FIRST && (check != f->v.check || inspect != f->v.inspect))
		flow_end(f, "policy");
	else if (!f->by_name && f->addr_at > 0 &&
		 !judge_addr(j, &f->dest, &f->v, &f->addr[f->addr_at - 1], false, &reason))
		flow_end(f, "policy");
	else if (f->state == F_FIRST && f->v.check == CHECK_NONE)
		flow_go_up(f);
	else if (f->state == F_FIRST)
		first_bytes(f); /* may be whole by these rules */
}

void flows_judged(struct box *b)
{
	struct flow *next;

	judge_recount(b->judge);
	for (struct flow *f = b->flows; f != NULL; f = next) {
		next = f->next;
		if (f->state == F_OVER)
			f->ruled = false;
		else if (f->state == F_PICK)
			pick_name(f);
		else if (f->state != F_DNS)
			judge_again(f);
	}
}
