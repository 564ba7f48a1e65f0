#include "api/where.h"

#include "parse/uri.h"

#include <errno.h>
#include <string.h>

#define LOWER_DIGITS "abcdefghijklmnopqrstuvwxyz0123456789"
#define DIGITS	     "0123456789"

/* Decimal digits only, 1 to 65535. */
static bool port_of(const char *s, size_t n, uint16_t *ret)
{
	uint32_t v = 0;

	if (n == 0 || n > 5)
		return false;
	for (size_t i = 0; i < n; i++) {
		if (s[i] < '0' || s[i] > '9')
			return false;
		v = v * 10 + (uint32_t)(s[i] - '0');
	}
	*ret = (uint16_t)v;
	return v >= 1 && v <= 65535;
}

static bool id_of(const char *s, size_t n, char dst[WHERE_ID_MAX + 1])
{
	if (n == 0 || n > WHERE_ID_MAX || strspn(s, LOWER_DIGITS) < n)
		return false;
	memcpy(dst, s, n);
	dst[n] = '\0';
	return true;
}

/* "3000-iabc.example.org": a port and an id as the first label. */
static bool by_host(const char *host, struct where *ret)
{
	size_t label = strcspn(host, "."), digits = strspn(host, DIGITS);

	return host[label] == '.' && digits > 0 && digits < label && host[digits] == '-' &&
	       port_of(host, digits, &ret->port) && id_of(host + digits + 1, label - digits - 1, ret->id);
}

static bool is_signed(const char *target)
{
	char value[4];

	return uri_path_len(target) == strlen("/files") && strncmp(target, "/files", strlen("/files")) == 0 &&
	       uri_get(uri_query(target), "signature", value, sizeof(value)) != -ENOENT;
}

void where_find(const char *id, const char *port, const char *host, const char *target, struct where *ret)
{
	*ret = (struct where){.kind = WHERE_BAD};
	if (id != NULL || port != NULL) {
		if (id == NULL || port == NULL)
			ret->why = id == NULL ? "missing header e2b-sandbox-id" : "missing header e2b-sandbox-port";
		else if (!id_of(id, strlen(id), ret->id))
			ret->why = "invalid sandbox id";
		else if (!port_of(port, strlen(port), &ret->port))
			ret->why = "invalid sandbox port";
		else
			ret->kind = WHERE_BOX;
		return;
	}
	if (host != NULL && by_host(host, ret))
		ret->kind = WHERE_BOX;
	else
		ret->kind = is_signed(target) ? WHERE_SIGNED : WHERE_CONTROL;
}

bool where_internal(const char *target)
{
	static const char *const paths[] = {"/init", "/freeze", "/unfreeze", "/fsfreeze", "/fsthaw", "/collapse"};
	char path[16];

	if (uri_decode(target, uri_path_len(target), false, path, sizeof(path)) < 0)
		return false; /* longer than any of them, or malformed: the keeper's to refuse */
	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++)
		if (strcmp(path, paths[i]) == 0)
			return true;
	return false;
}
