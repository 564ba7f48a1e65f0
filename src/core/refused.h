#pragma once
/* How often a record of the gate (docs/egress.md) says no. */
#include <jansson.h>
#include <stdint.h>

/* Attempts that this record is about and that were refused: 0, 1, or as many as one record stands for. o: any JSON value. */
uint64_t refused_by_record(const json_t *o);
