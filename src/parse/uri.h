#pragma once
/*
 * Targets of HTTP requests and what is percent-encoded in them (RFC 3986, and the form encoding of the URL Standard,
 * where '+' is a space). Pure; the text is hostile.
 */
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>

/*
 * Decode s[0..n) into dst[size] as a C string. Its length, -EINVAL for a '%' without two hexadecimal digits or for
 * one that would be a NUL, -ENOBUFS when it does not fit. plus: '+' is a space.
 */
int must_check uri_decode(const char *s, size_t n, bool plus, char *dst, size_t size);
/* Bytes of the path of a target: up to its '?' or end. */
size_t uri_path_len(const char *target);
/* What follows '?', "" = nothing. Borrowed. */
const char *uri_query(const char *target);

struct uri_pair { /* as it stands in the query; borrowed */
	const char *name, *value;
	size_t name_n, value_n;
};
/* The next pair of a query and on; false when none is left. Empty pairs are skipped; one without '=' has an empty value. */
bool uri_next(const char **query, struct uri_pair *ret);
/*
 * The value of the first pair of this name, decoded. Its length, -ENOENT = there is none, else as uri_decode. name
 * is compared with the decoded name.
 */
int must_check uri_get(const char *query, const char *name, char *dst, size_t size);
