/* Amounts in configuration: numbers of bytes or milliseconds, which may be written with a unit. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define AMOUNT_TOO_LARGE "is not a whole number that the setting can hold"

/* Whether a field of that name is an amount: it ends in "_bytes" or "_ms", or has that before
 * another '_' ("max_unread_bytes_per_key"). */
bool amount_is(const char *field);

/* The value of `text` for a field without a sign: digits alone, or, for an amount, digits and a unit of its
 * kind with nothing between them ("512MiB", "30s"). NULL, or what is wrong with it, to stand behind the text:
 * "is not a ...". */
const char *amount_parse(const char *field, const char *text, size_t length, uint64_t *ret);
