#include "cmd/opt.h"
/*
 * Options come first; the first word that is none ends them, so that the options of the command to
 * run are never taken for brig's own. "--name=value" and "--name value" are the same, short switches
 * may be grouped ("-it").
 */
#include "base/quote.h"
#include "base/suggest.h"

#include <errno.h>
#include <string.h>

static int unknown_long(const struct opt_parser *p, const char *name, size_t len, struct err *e)
{
	char copy[SUGGEST_LEN_MAX + 1] = "", q[QUOTE_MAX], shown[SUGGEST_LEN_MAX + 3] = "--";
	struct suggest s = SUGGEST(copy);

	if (len > SUGGEST_LEN_MAX)
		return err_set(e, ERR_INVALID, EINVAL, "unknown option %s", quote(name - 2, q));
	memcpy(copy, name, len);
	memcpy(shown + 2, name, len);
	for (unsigned int i = 0; i < p->nopts; i++)
		suggest_offer(&s, p->opts[i].name);
	(void)quote(shown, q);
	if (s.best != NULL)
		return err_set(e, ERR_INVALID, EINVAL, "unknown option %s: did you mean --%s?", q,
			       s.best);
	return err_set(e, ERR_INVALID, EINVAL, "unknown option %s", q);
}

static int long_option(struct opt_parser *p, const char *name, const struct opt **ret,
		       const char **ret_value, struct err *e)
{
	size_t len = strcspn(name, "=");
	const char *value = name[len] == '=' ? name + len + 1 : NULL;
	const struct opt *o = NULL;

	for (unsigned int i = 0; i < p->nopts && o == NULL; i++)
		if (strncmp(p->opts[i].name, name, len) == 0 && p->opts[i].name[len] == '\0')
			o = &p->opts[i];
	if (o == NULL || len == 0)
		return unknown_long(p, name, len, e);
	if (o->value == VAL_NONE && value != NULL)
		return err_set(e, ERR_INVALID, EINVAL, "--%s takes no value", o->name);
	if (o->value != VAL_NONE && value == NULL) {
		value = p->argv[p->at];
		if (value == NULL)
			return err_set(e, ERR_INVALID, EINVAL, "--%s needs a value: %s", o->name,
				       o->arg);
		p->at++;
	}
	*ret = o;
	*ret_value = value;
	return 1;
}

static int short_option(struct opt_parser *p, const struct opt **ret, const char **ret_value,
			struct err *e)
{
	const struct opt *o = NULL;
	char q[QUOTE_MAX];
	const char *value = NULL;

	for (unsigned int i = 0; i < p->nopts && o == NULL; i++)
		if (p->opts[i].letter != '\0' && p->opts[i].letter == p->cluster[0])
			o = &p->opts[i];
	if (o == NULL) {
		const char shown[3] = {'-', p->cluster[0], '\0'};

		return err_set(e, ERR_INVALID, EINVAL, "unknown option %s", quote(shown, q));
	}
	p->cluster++;
	if (o->value != VAL_NONE) {
		value = p->cluster[0] != '\0' ? p->cluster : p->argv[p->at];
		if (value == NULL)
			return err_set(e, ERR_INVALID, EINVAL, "-%c needs a value: %s", o->letter,
				       o->arg);
		if (p->cluster[0] == '\0')
			p->at++;
		p->cluster = NULL;
	}
	*ret = o;
	*ret_value = value;
	return 1;
}

int opt_next(struct opt_parser *p, const struct opt **ret, const char **ret_value, struct err *e)
{
	const char *word;

	if (p->cluster != NULL && p->cluster[0] != '\0')
		return short_option(p, ret, ret_value, e);
	p->cluster = NULL;
	word = p->argv[p->at];
	if (word == NULL || word[0] != '-' || word[1] == '\0')
		return 0;
	p->at++;
	if (strcmp(word, "--") == 0) {
		p->saw_dashdash = true;
		return 0;
	}
	if (word[1] == '-')
		return long_option(p, word + 2, ret, ret_value, e);
	p->cluster = word + 1;
	return short_option(p, ret, ret_value, e);
}

int opt_one(const struct opt *opts, unsigned int nopts, char *const *argv, int id, bool *ret_given, int *ret_at,
	    struct err *e)
{
	struct opt_parser p = opt_parser(opts, nopts, argv);
	const struct opt *row = NULL;
	const char *value = NULL;
	int r;

	*ret_given = false;
	while ((r = opt_next(&p, &row, &value, e)) > 0)
		*ret_given = *ret_given || (row != NULL && row->id == id);
	*ret_at = p.at;
	return r;
}

int opt_no_operands(char *const *argv, int at, struct err *e)
{
	char q[QUOTE_MAX];

	return argv[at] == NULL ? 0 : err_set(e, ERR_INVALID, EINVAL, "%s: it takes no operands", quote(argv[at], q));
}

int opt_alone(const struct opt *opts, unsigned int nopts, char *const *argv, int id, bool *ret_given, struct err *e)
{
	int at, r = opt_one(opts, nopts, argv, id, ret_given, &at, e);

	return r == 0 ? opt_no_operands(argv, at, e) : r;
}
