#pragma once
/* What handlers of Connect calls share: reading proto3 JSON, writing streams. */
#include "keep/talk.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/* A member under its lowerCamelCase or its snake_case name; NULL = absent or null. */
json_t *rpc_get(const json_t *o, const char *camel, const char *snake);
/* A number, or a string of digits. False for anything else. */
bool rpc_u32(const json_t *v, uint32_t *ret);
/* A string without NUL, NULL when it is anything else. */
const char *rpc_text(const json_t *v);
/* Whether it is an object (array) of strings without NUL; names of an object not empty, without
 * '='. */
bool rpc_strings(const json_t *v);
/* Bytes in base64: owned by the caller, NULL when it is none. */
uint8_t *rpc_bytes(const json_t *v, size_t *ret_n);

/* Answer {} to a unary call. */
void rpc_empty(struct talk *t);
/* Begin the answer of a stream. */
void stream_begin(struct talk *t);
/* One message; takes the reference. */
void stream_json(struct talk *t, json_t *o);
/* One message already written as JSON text, or as a whole envelope. */
void stream_raw(struct talk *t, const void *p, size_t n);
/* The end without an error. */
void stream_close(struct talk *t);
/* Header fields of a stream: milliseconds until its deadline (0 = none), and between keepalives. */
uint64_t stream_timeout_ms(const struct talk *t);
uint64_t stream_keepalive_ms(const struct talk *t);
