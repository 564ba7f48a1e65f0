#pragma once
/* Header checksums made right, so that mutations get past them. */
#include "parse/tar.h"

#include <stdio.h>
#include <string.h>

static inline void tar_fix(uint8_t b[TAR_BLOCK])
{
	enum { AT = 148, LEN = 8 };
	unsigned sum = 0;
	bool zero = true;

	for (size_t i = 0; i < TAR_BLOCK; i++)
		zero = zero && b[i] == 0;
	if (zero)
		return;
	memset(b + AT, ' ', LEN);
	for (size_t i = 0; i < TAR_BLOCK; i++)
		sum += b[i];
	(void)snprintf((char *)b + AT, LEN, "%06o", sum & 0777777);
	b[AT + LEN - 1] = ' ';
}
