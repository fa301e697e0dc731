/* Decimal numbers beside the doubles that they become. */
#pragma once

#include <stdbool.h>

/* Whether a number as JSON writes it, of at most DECIMAL_BYTES_MAX bytes, is still the same once a double
 * holds it: read as one, and written with as many digits, it is what it was, or it is the very text that
 * writers of the fewest digits have for that double. 0.1 and 1e300 stay, 9007199254740993, 1e400 and 1e-400
 * do not. */
#define DECIMAL_BYTES_MAX 60
bool decimal_is_double(const char *text);
