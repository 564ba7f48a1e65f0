#pragma once
/*
 * One decoded request. Strings are borrowed from the message and not NUL-terminated; they contain no
 * NUL byte. Limits of every value are those of wire/request_fields.def.
 */
#include "wire/request.h"

struct ask_str {
	const uint8_t *p; /* NULL: the field was absent */
	size_t n;
};

struct ask {
	enum req_kind kind; /* any number: an unknown kind is answered, not an error of the message */
	uint32_t flags;
	const uint8_t *msg; /* the whole message, for ask_args */
	size_t msg_len;
	uint32_t argc, envc;
	size_t arg_bytes, env_bytes; /* with a NUL for each */
	struct ask_str cwd, user, path, path2, entropy, xattrs, expect;
	uint64_t has; /* bit per enum msg_field */
	uint64_t mode, offset, length, depth, nsec, umask;
	uint16_t rows, cols, port;
};

/* 0, -EPROTO: malformed, no KIND, or a field that no request has. */
int must_check ask_parse(const void *msg, size_t n, struct ask *ret);
static inline bool ask_has(const struct ask *q, enum msg_field f)
{
	return (q->has >> f) & 1;
}
/*
 * Copy all ARG or ENV fields as C strings: NULL-terminated array of pointers with `spare` more free
 * slots, in one block from malloc. NULL when there is no memory.
 */
char **ask_args(const struct ask *q, enum msg_field f, uint32_t spare);
/* C string copy into dst[size]. 0, -ENAMETOOLONG, -EINVAL when absent. */
int must_check ask_copy(const struct ask_str *s, char *dst, size_t size);
/* How many descriptors belong to the request, from its flags. */
uint32_t ask_fds(const struct ask *q);
