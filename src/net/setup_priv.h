#pragma once
#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

/* Hand a batch of nf_tables messages to the kernel: 0, or -errno, and nothing of it holds. */
int must_check net_load_rules(const uint8_t *batch, size_t n);
