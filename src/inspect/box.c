#include "inspect/priv.h"

#include "base/num.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * One attached sandbox: its rules, its authority, its secrets, and what is looked for in streams because of them. Nothing is
 * shared between sandboxes.
 */

static void forget_secrets(struct box *b)
{
	for (uint32_t i = 0; i < b->secrets; i++) {
		free(b->secret[i].ref);
		if (b->secret[i].value != NULL)
			explicit_bzero(b->secret[i].value, strlen(b->secret[i].value));
		free(b->secret[i].value);
	}
	for (uint32_t i = 0; i < b->marks_n; i++)
		free(b->mark[i]);
	b->secrets = b->marks_n = 0;
	needles_done(&b->marks);
	needles_done(&b->redact);
}

const char *box_secret(const struct box *b, const char *ref)
{
	for (uint32_t i = 0; i < b->secrets; i++)
		if (strcmp(b->secret[i].ref, ref) == 0)
			return b->secret[i].value;
	return NULL;
}

static char *text_of(const uint8_t *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (p[i] < 0x20 || p[i] >= 0x7f)
			return NULL;
	return strndup((const char *)p, n);
}

/* Two sizes, the reference, the value; see wire/inspect.h. */
static int take_secrets(struct box *b, const uint8_t *p, size_t n, struct err *e)
{
	while (n > 0) {
		struct secret *s = &b->secret[b->secrets];
		size_t ref_n, value_n;

		if (b->secrets == SECRETS_MAX || n < 4)
			return err_set(e, ERR_INVALID, EPROTO, "the secrets are not readable");
		ref_n = load_le16(p);
		value_n = load_le16(p + 2);
		if (n - 4 < ref_n || n - 4 - ref_n < value_n || value_n == 0 || value_n > VALUE_MAX / 2)
			return err_set(e, ERR_INVALID, EPROTO, "the secrets are not readable");
		b->secrets++;
		s->ref = text_of(p + 4, ref_n);
		s->value = text_of(p + 4 + ref_n, value_n);
		if (s->ref == NULL || s->value == NULL)
			return err_set(e, ERR_INVALID, EINVAL, "a secret holds bytes that no header value may");
		p += 4 + ref_n + value_n;
		n -= 4 + ref_n + value_n;
	}
	return 0;
}

static int add_mark(struct box *b, const char *text)
{
	for (uint32_t i = 0; i < b->marks_n; i++)
		if (strcmp(b->mark[i], text) == 0)
			return 0;
	if (b->marks_n == MARKS_MAX)
		return -E2BIG;
	b->mark[b->marks_n] = strdup(text);
	if (b->mark[b->marks_n] == NULL)
		return -ENOMEM;
	return needles_add_forms(&b->marks, text, b->marks_n++);
}

/* What the rules inject: each secret must be there, and what must be found is looked for. */
static int take_injects(struct box *b, const struct judge *j, struct err *e)
{
	const struct judge_inject *x;

	for (uint32_t i = 0; (x = judge_inject(j, i)) != NULL; i++) {
		const char *value = x->secret != NULL ? box_secret(b, x->secret) : NULL;
		int r = 0;

		if (x->format == NULL || x->secret == NULL)
			return err_set(e, ERR_INVALID, EINVAL, "%s: a rule injects without a format or a secret", x->header);
		if (value == NULL)
			return err_set(e, ERR_INVALID, ENOENT, "there is no value for the secret %s", x->secret);
		if (x->placeholder != NULL)
			r = add_mark(b, x->placeholder);
		if (r == 0 && x->redact_response)
			r = needles_add_forms(&b->redact, value, 0);
		if (r < 0)
			return err_set(e, ERR_LIMITED, -r, "too many secrets");
	}
	return 0;
}

int box_open(struct loop *l, const char *id, const char *rules, size_t n, const uint8_t *secrets, size_t secrets_n,
	     const int *trust, size_t trust_n, struct box **ret, struct err *e)
{
	struct box *b = calloc(1, sizeof(*b));
	int r;

	if (b == NULL)
		return err_no_memory(e);
	b->loop = l;
	(void)snprintf(b->id, sizeof(b->id), "%s", id);
	r = judge_new(rules, n, &b->judge, e);
	if (r == 0)
		r = take_secrets(b, secrets, secrets_n, e);
	if (r == 0)
		r = take_injects(b, b->judge, e);
	if (r == 0 && (judge_reads(b->judge) & JUDGE_READS_TLS) != 0)
		r = authority_new(id, trust, trust_n, &b->ca, e);
	if (r < 0) {
		box_free(b);
		return r;
	}
	*ret = b;
	return 0;
}

static void decide_again(struct box *b)
{
	struct conn *next;

	for (struct conn *k = b->conns; k != NULL; k = next) {
		next = k->next;
		if (!conn_decide(k))
			conn_drop(k, "policy");
	}
}

int box_policy(struct box *b, const char *rules, size_t n, const uint8_t *secrets, size_t secrets_n, struct err *e)
{
	struct box fresh = {.secrets = 0};
	struct judge *j = NULL;
	int r = judge_new(rules, n, &j, e);

	if (r == 0 && b->ca == NULL && (judge_reads(j) & JUDGE_READS_TLS) != 0)
		r = err_set(e, ERR_INVALID, ENOTSUP,
			    "a rule ends TLS, but the sandbox was started without such a rule and trusts no authority of ours");
	if (r == 0)
		r = take_secrets(&fresh, secrets, secrets_n, e);
	if (r == 0)
		r = take_injects(&fresh, j, e);
	if (r == 0) {
		r = judge_adopt(j, b->judge);
		if (r < 0)
			(void)err_set(e, ERR_INVALID, -r, "the new rules cannot follow the old ones");
	}
	if (r < 0) {
		forget_secrets(&fresh);
		judge_free(j);
		return r;
	}
	forget_secrets(b);
	memcpy(b->secret, fresh.secret, sizeof(b->secret));
	memcpy(b->mark, fresh.mark, sizeof(b->mark));
	b->secrets = fresh.secrets;
	b->marks_n = fresh.marks_n;
	b->marks = fresh.marks;
	b->redact = fresh.redact;
	{
		struct judge *old = b->judge;

		b->judge = j;
		decide_again(b);
		judge_free(old);
	}
	return 0;
}

void box_free(struct box *b)
{
	while (b->conns != NULL)
		conn_drop(b->conns, "sandbox_ended");
	forget_secrets(b);
	authority_free(b->ca);
	judge_free(b->judge);
	free(b);
}
