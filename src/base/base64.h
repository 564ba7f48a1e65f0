#pragma once
/* Base64 (RFC 4648) for bytes that have no place in JSON text. */
#include <stddef.h>

/* Encode n bytes. Returns an owned C string, NULL when out of memory. */
char *base64_encode(const void *p, size_t n);
