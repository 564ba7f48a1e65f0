#pragma once
/* Base64 (RFC 4648) for bytes that have no place in JSON text. */
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Encode n bytes. Returns an owned C string, NULL when out of memory. */
char *base64_encode(const void *p, size_t n);
/* Encode n bytes at dst without a NUL: base64_size(n) characters. */
void base64_put(char *dst, const void *p, size_t n);
static inline size_t base64_size(size_t n) { return (n + 2) / 3 * 4; }
/*
 * Decode n characters of the standard or the URL's alphabet, padded or not, into dst[size]. The
 * number of bytes, -EINVAL for anything else in it, -ENOBUFS.
 */
ssize_t base64_decode(const char *s, size_t n, uint8_t *dst, size_t size);
