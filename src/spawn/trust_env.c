#include "spawn/trust_env.h"

#include "base/num.h"
#include "gate/judge.h"
#include "tier/tier.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* Files that the programs' makers named; each holds a whole bundle, so that none of them loses the usual ones. */
static const char *const files[] = {"SSL_CERT_FILE",  "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE",
				    "CURL_CA_BUNDLE", "GIT_SSL_CAINFO",	     "PIP_CERT",
				    "AWS_CA_BUNDLE",  "CARGO_HTTP_CAINFO",   "DENO_CERT"};

static bool is_name(const char *s)
{
	if (*s == '\0' || (*s >= '0' && *s <= '9'))
		return false;
	for (; *s != '\0'; s++)
		if (!((*s >= '0' && *s <= '9') || ((*s | 32) >= 'a' && (*s | 32) <= 'z') || *s == '_'))
			return false;
	return true;
}

static int put(struct spec *s, const char *name, const char *value)
{
	char line[2200];
	size_t n = strlen(name);

	for (uint32_t i = 0; i < s->env.n; i++)
		if (strncmp(s->env.v[i], name, n) == 0 && s->env.v[i][n] == '=')
			return 0;
	if ((size_t)snprintf(line, sizeof(line), "%s=%s", name, value) >= sizeof(line))
		return -E2BIG;
	return strv_add(&s->env, line);
}

int trust_env(struct spec *s, struct err *e)
{
	const struct judge_inject *x;
	struct judge *j = NULL;
	int r = s->egress != NULL ? judge_new(s->egress, strlen(s->egress), &j, e) : 0;

	if (r < 0 || j == NULL)
		return r;
	for (size_t i = 0; r == 0 && (judge_reads(j) & JUDGE_READS_TLS) != 0 && i < ARRAY_LEN(files); i++)
		r = put(s, files[i], TIER_TRUST_PATH);
	for (uint32_t i = 0; r == 0 && (x = judge_inject(j, i)) != NULL; i++)
		if (x->placeholder != NULL && is_name(x->placeholder))
			r = put(s, x->placeholder, x->placeholder);
	judge_free(j);
	return r < 0 ? err_set(e, ERR_INTERNAL, -r, "egress: variables of the command: %s", strerror(-r)) : 0;
}
