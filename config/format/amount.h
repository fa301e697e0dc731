/* Amounts in configuration: numbers of bytes or milliseconds, which may be written with a unit. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define AMOUNT_TOO_LARGE "is not a whole number that the setting can hold"

enum amount_unit { AMOUNT_PLAIN, AMOUNT_BYTES, AMOUNT_TIME };

/* Whether a field of that name is an amount: it ends in "_bytes" or "_ms", or has that before
 * another '_' ("max_unread_bytes_per_key"). So are "soft" and "hard", of bytes or of seconds as a resource
 * limit may be: whoever knows which asks for the unit. */
bool amount_is(const char *field);

/* The value of `text` for a field without a sign: digits alone, or, for an amount, digits and a unit of its
 * kind with nothing between them ("512MiB", "30s"). NULL, or what is wrong with it, to stand behind the text:
 * "is not a ...". */
const char *amount_parse(const char *field, const char *text, size_t length, uint64_t *ret);
/* Which unit such a text ends with. */
enum amount_unit amount_unit(const char *text, size_t length);

/* A number of bytes or milliseconds with the largest unit that divides it: "512MiB", "1500ms". */
#define AMOUNT_TEXT_MAX 32
const char *amount_print(enum amount_unit unit, uint64_t value, char ret[AMOUNT_TEXT_MAX]);
