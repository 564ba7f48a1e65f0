/*
 * Fortified functions for libraries compiled with glibc's headers and linked with musl, which has
 * none. Each does what its name without `__` and `_chk` does after checking what it was given of
 * the destination's size, as the Linux Standard Base describes them (LSB Core, "__memcpy_chk" and
 * following); the flag of the printf family asks for checks of %n, which musl does not have and the
 * libraries do not use. Only in release builds; what is here is what the link asks for.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/select.h>

void *__memcpy_chk(void *dst, const void *src, size_t n, size_t size);
void *__memmove_chk(void *dst, const void *src, size_t n, size_t size);
char *__strncpy_chk(char *dst, const char *src, size_t n, size_t size);
void __explicit_bzero_chk(void *dst, size_t n, size_t size);
int __vsnprintf_chk(char *dst, size_t n, int flag, size_t size, const char *fmt, va_list ap)
    __attribute__((format(printf, 5, 0)));
int __snprintf_chk(char *dst, size_t n, int flag, size_t size, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));
int __sprintf_chk(char *dst, int flag, size_t size, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
int __vfprintf_chk(FILE *f, int flag, const char *fmt, va_list ap)
    __attribute__((format(printf, 3, 0)));
int __fprintf_chk(FILE *f, int flag, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
long __fdelt_chk(long fd);

static void check(size_t n, size_t size)
{
	if (n > size)
		abort();
}

void *__memcpy_chk(void *dst, const void *src, size_t n, size_t size)
{
	check(n, size);
	return memcpy(dst, src, n);
}

void *__memmove_chk(void *dst, const void *src, size_t n, size_t size)
{
	check(n, size);
	return memmove(dst, src, n);
}

char *__strncpy_chk(char *dst, const char *src, size_t n, size_t size)
{
	check(n, size);
	return strncpy(dst, src, n);
}

void __explicit_bzero_chk(void *dst, size_t n, size_t size)
{
	check(n, size);
	explicit_bzero(dst, n);
}

int __vsnprintf_chk(char *dst, size_t n, int flag, size_t size, const char *fmt, va_list ap)
{
	(void)flag;
	check(n, size);
	return vsnprintf(dst, n, fmt, ap);
}

int __snprintf_chk(char *dst, size_t n, int flag, size_t size, const char *fmt, ...)
{
	va_list ap;
	int r;

	va_start(ap, fmt);
	r = __vsnprintf_chk(dst, n, flag, size, fmt, ap);
	va_end(ap);
	return r;
}

int __sprintf_chk(char *dst, int flag, size_t size, const char *fmt, ...)
{
	va_list ap;
	int r;

	(void)flag;
	va_start(ap, fmt);
	r = vsnprintf(dst, size, fmt, ap);
	va_end(ap);
	if (r >= 0)
		check((size_t)r + 1, size);
	return r;
}

int __vfprintf_chk(FILE *f, int flag, const char *fmt, va_list ap)
{
	(void)flag;
	return vfprintf(f, fmt, ap);
}

int __fprintf_chk(FILE *f, int flag, const char *fmt, ...)
{
	va_list ap;
	int r;

	va_start(ap, fmt);
	r = __vfprintf_chk(f, flag, fmt, ap);
	va_end(ap);
	return r;
}

/* Which word of an fd_set a descriptor is in: FD_SET(3) and its like. */
long __fdelt_chk(long fd)
{
	if (fd < 0 || fd >= FD_SETSIZE)
		abort();
	return fd / (long)(8 * sizeof(long));
}
