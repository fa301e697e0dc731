/* Names for requests: X-Request-Id, traceparent, execution ids. Taken from the caller where sane, made up
 * otherwise. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define IDENT_BYTES 129 /* the longest identifier, with the NUL */

/* 1 to 128 of A-Z a-z 0-9 and . _ - : / + = @ ~ : nothing that a log, a header or a terminal could misread.
 */
bool ident_is_sane(const char *text);

/* A W3C trace context header of version 00: "00-<32 hex>-<16 hex>-<2 hex>", lower case, ids not all zero. */
bool ident_is_traceparent(const char *text);

/* A random UUID (version 4), as text. */
void ident_fresh(char ret[IDENT_BYTES]);

/* `text` where it is sane, else a fresh one. `text` may be NULL. */
void ident_choose(const char *text, char ret[IDENT_BYTES]);
