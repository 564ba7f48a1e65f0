#include "egress/priv.h"
/*
 * Host names as people write them. Other scripts are for files and command lines only: they become A-labels here, once, by
 * IDNA2008 (RFC 5891; libidn2), and everything behind this point knows ASCII only. A wildcard below a public suffix
 * (publicsuffix.org; libpsl) would permit what strangers register there, so it must be meant.
 */
#include "base/cleanup.h"
#include "base/quote.h"

#include <errno.h>
#include <idn2.h>
#include <libpsl.h>
#include <stdlib.h>
#include <string.h>

static bool ascii(const char *s)
{
	for (; *s != '\0'; s++)
		if ((unsigned char)*s >= 0x80)
			return false;
	return true;
}

/* Lower case; A-labels for others. No mapping (UTS 46): what looks like nothing, or like a dot, is refused instead of
 * becoming it. An A-label in the file must be one that a U-label makes. */
static int to_ascii(const char *name, char **ret, struct err *e)
{
	_cleanup_free_ char *lower = strdup(name);
	uint8_t *out = NULL;
	char q[QUOTE_MAX];
	int r;

	for (char *p = lower; p != NULL && *p != '\0'; p++)
		*p = (char)(*p >= 'A' && *p <= 'Z' ? *p - 'A' + 'a' : *p);
	if (lower != NULL && ascii(lower) && strstr(lower, "xn--") == NULL) {
		*ret = steal_ptr(&lower);
		return 0;
	}
	r = lower == NULL ? IDN2_MALLOC
			  : idn2_lookup_u8((const uint8_t *)lower, &out,
					   IDN2_NFC_INPUT | IDN2_NO_TR46 | IDN2_ALABEL_ROUNDTRIP);
	if (r == IDN2_OK && (*ret = strdup((const char *)out)) == NULL)
		r = IDN2_MALLOC;
	idn2_free(out);
	if (r == IDN2_MALLOC)
		return err_no_memory(e);
	return r == IDN2_OK ? 0
			    : err_set(e, ERR_INVALID, EINVAL, "%s is no host name (IDNA2008): %s", quote(name, q),
				      idn2_strerror(r));
}

static bool is_public_suffix(const char *name)
{
	psl_ctx_t *psl = psl_latest(NULL); /* the host's list when it is newer than the one built in */
	bool is = psl == NULL || psl_is_public_suffix(psl, name) == 1;

	psl_free(psl);
	return is;
}

int host_read(const char *host, bool single_ok, bool suffix_ok, char **ret, bool *single, struct err *e)
{
	size_t stars = strncmp(host, "**.", 3) == 0 ? 3 : strncmp(host, "*.", 2) == 0 ? 2 : 0, n;
	_cleanup_free_ char *name = NULL;
	char q[QUOTE_MAX], *out;
	int r = to_ascii(host + stars, &name, e);

	if (r < 0)
		return r;
	n = strlen(name);
	if (n > 0 && name[n - 1] == '.')
		name[--n] = '\0';
	*single = strchr(name, '.') == NULL;
	if (strchr(name, '*') != NULL)
		return err_set(e, ERR_INVALID, EINVAL,
			       "%s: a star stands only at the beginning: *.name (one label) or **.name (one or more)", quote(host, q));
	if (stars == 0 && *single && !single_ok)
		return err_set(e, ERR_INVALID, EINVAL,
			       "%s: the host is neither a name with two labels, *.name, **.name nor an address range; in a file "
			       "single_label: true permits a name without a dot",
			       quote(host, q));
	if (stars != 0 && !suffix_ok && is_public_suffix(name))
		return err_set(e, ERR_INVALID, EINVAL,
			       "%s: anybody may register names there (public suffix); name the host, or say "
			       "unsafe_public_suffix: true in a file",
			       quote(host, q));
	if (stars != 0 && *single && !suffix_ok)
		return err_set(e, ERR_INVALID, EINVAL, "%s: a wildcard needs a name of two labels behind it", quote(host, q));
	out = malloc(stars + n + 1);
	if (out == NULL)
		return err_no_memory(e);
	memcpy(out, host, stars);
	memcpy(out + stars, name, n + 1);
	*ret = out;
	return 0;
}
