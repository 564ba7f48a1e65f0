/*
 * Where the body of a request ends must not be a matter of opinion: a proxy before brigd that reads a length where brigd reads
 * chunks would take one client's bytes for another's request (RFC 9112 §6.3, §11.2). libmicrohttpd refuses malformed lengths and
 * chunks, but takes the first of two lengths, chunks before a length, and a coding it does not know for none. It also takes a bare
 * CR or LF for a line's end, which cannot be seen here: docs/api.md says what a proxy must do.
 */
#include "api/server_priv.h"

#include "parse/http.h"

#include <string.h>

struct seen {
	unsigned lengths, codings, hosts;
	bool other; /* a coding that is not "chunked", or a name that another reader would take for one of these */
};

static enum MHD_Result look(void *cls, enum MHD_ValueKind kind, const char *name, const char *value)
{
	struct seen *s = cls;

	(void)kind;
	s->other |= http_token(name, strlen(name)) != strlen(name);
	if (strcasecmp(name, "Content-Length") == 0)
		s->lengths++;
	else if (strcasecmp(name, "Host") == 0)
		s->hosts++;
	if (strcasecmp(name, "Transfer-Encoding") != 0)
		return MHD_YES;
	s->codings++;
	s->other |= value == NULL || strcasecmp(value, "chunked") != 0;
	return MHD_YES;
}

const char *framing_fault(struct MHD_Connection *conn, const char *version, bool *ret_endless)
{
	struct seen s = {.lengths = 0};

	(void)MHD_get_connection_values(conn, MHD_HEADER_KIND, look, &s);
	*ret_endless = s.other;
	if (s.lengths + s.codings > 1)
		return "the length of the body is given more than once";
	if (s.other)
		return "a coding that is not chunked, or a name of a field that is no token";
	if (s.codings > 0 && strcmp(version, "HTTP/1.1") != 0)
		return "HTTP/1.0 has no chunks";
	return s.hosts > 1 ? "more than one Host" : NULL;
}
