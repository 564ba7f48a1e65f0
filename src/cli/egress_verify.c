#include "cli/egress_verify.h"

#include "base/quote.h"
#include "cli/egress_log.h"

#include <errno.h>
#include <jansson.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * Line by line, in the memory of one line and of the chains' heads. The file may come from anybody: a line that no gate would
 * have written, the last one without its end too, is a line that was changed.
 */

enum { CHAINS_MAX = 1 << 20 };

void egress_line_hash(const char *p, size_t n, char out[65])
{
	uint8_t sum[crypto_hash_sha256_BYTES];

	(void)crypto_hash_sha256(sum, (const uint8_t *)p, n);
	(void)sodium_bin2hex(out, sizeof(sum) * 2 + 1, sum, sizeof(sum));
}

void egress_chains_done(struct egress_chains *c)
{
	for (uint32_t i = 0; i < c->n; i++)
		free(c->v[i].id);
	free(c->v);
	*c = (struct egress_chains){.n = 0};
}

/* The chain of this id, made when it is new. The newest is looked for first: files grow by whole runs. */
static struct egress_chain *chain_of(struct egress_chains *c, const char *id)
{
	struct egress_chain *grown;

	for (uint32_t i = c->n; i > 0; i--)
		if (strcmp(c->v[i - 1].id, id) == 0)
			return &c->v[i - 1];
	if (c->n == CHAINS_MAX)
		return NULL;
	if ((c->n & (c->n - 1)) == 0) { /* full at each power of two */
		grown = realloc(c->v, (c->n == 0 ? 1u : c->n * 2u) * sizeof(*grown));
		if (grown == NULL)
			return NULL;
		c->v = grown;
	}
	c->v[c->n] = (struct egress_chain){.id = strdup(id)};
	return c->v[c->n].id == NULL ? NULL : &c->v[c->n++];
}

/* NULL, or what is wrong with it. */
static const char *follow(struct egress_chains *c, const json_t *o, const char *p, size_t n)
{
	const char *id = json_string_value(json_object_get(o, "lifecycle_id"));
	const char *prev = json_string_value(json_object_get(o, "prev_hash"));
	const json_t *seq = json_object_get(o, "seq");
	json_int_t lost = json_integer_value(json_object_get(o, "lost"));
	struct egress_chain *chain;

	if (id == NULL || !json_is_integer(seq))
		return "is no record";
	chain = chain_of(c, id);
	if (chain == NULL)
		return "begins one chain too many";
	if (json_integer_value(seq) < 0 || (uint64_t)json_integer_value(seq) != chain->records)
		return "is not the next of its sandbox: lines were taken out, added or moved";
	if (strcmp(prev != NULL ? prev : "", chain->head) != 0)
		return "does not follow from its sandbox's line before, or one of the two was changed";
	chain->records++;
	chain->lost += lost > 0 ? (uint64_t)lost : 0;
	egress_line_hash(p, n, chain->head);
	return NULL;
}

static const char *take_line(struct egress_chains *c, const char *p, size_t n)
{
	const char *why;
	json_t *o;

	if (n == 0 || p[n - 1] != '\n')
		return "has no end";
	o = json_loadb(p, n, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
	why = o != NULL ? follow(c, o, p, n - 1) : "is no record";
	json_decref(o);
	return why;
}

int egress_verify(const char *path, struct egress_chains *ret, struct err *e)
{
	char line[EGRESS_LINE_MAX];
	const char *why = NULL;
	uint64_t nr = 0;
	char q[QUOTE_MAX];
	int r = 0;
	FILE *f = fopen(path, "re");

	*ret = (struct egress_chains){.n = 0};
	if (f == NULL)
		return err_set(e, ERR_NOT_FOUND, errno, "records %s: %s", quote(path, q), strerror(errno));
	errno = 0;
	while (why == NULL && fgets(line, sizeof(line), f) != NULL) {
		nr++;
		why = take_line(ret, line, strlen(line)); /* one with a NUL in it seems to have no end */
	}
	if (why != NULL)
		r = err_set(e, ERR_INVALID, EBADMSG, "%s:%llu: this line %s", quote_bare(path, q), (unsigned long long)nr, why);
	else if (ferror(f) != 0)
		r = err_set(e, ERR_INTERNAL, errno, "records %s: %s", quote(path, q), strerror(errno));
	(void)fclose(f);
	if (r < 0)
		egress_chains_done(ret);
	return r;
}
