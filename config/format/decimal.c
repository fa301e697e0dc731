/* Whether a decimal number survives being a double. Runs in the front on numbers of requests that a program
 * will have as doubles: what would turn into another number without a word is refused instead. */
#include "config/format/decimal.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Beyond any double's, by more than the digits of a number can make up for. */
#define EXPONENT_MAX 100000

/* 0.DIGITS times ten to the exponent, without zeros at either end of the digits: what a number is, however it
 * is written. No digits: zero. The sign is left out: a double keeps it. */
struct decimal {
    char digits[DECIMAL_BYTES_MAX + 1];
    size_t n;
    long exponent;
};

static void take_digit(struct decimal *decimal, char digit, bool fraction)
{
    bool leading = decimal->n == 0 && digit == '0';
    if (!leading && decimal->n < DECIMAL_BYTES_MAX) {
        decimal->digits[decimal->n++] = digit;
    }
    decimal->exponent += fraction ? -(long)leading : !leading;
}

static struct decimal read_decimal(const char *text)
{
    struct decimal ret = {.n = 0};
    bool fraction = false;
    for (; *text && *text != 'e' && *text != 'E'; text++) {
        if (*text >= '0' && *text <= '9') {
            take_digit(&ret, *text, fraction);
        } else {
            fraction = *text != '-';
        }
    }
    long written = *text ? strtol(text + 1, NULL, 10) : 0;
    ret.exponent += written > EXPONENT_MAX ? EXPONENT_MAX : written < -EXPONENT_MAX ? -EXPONENT_MAX : written;
    while (ret.n > 0 && ret.digits[ret.n - 1] == '0') {
        ret.n--;
    }
    return ret;
}

static bool same(const struct decimal *a, const struct decimal *b)
{
    return a->n == b->n && memcmp(a->digits, b->digits, a->n) == 0 &&
           (a->n == 0 || a->exponent == b->exponent);
}

bool decimal_is_double(const char *text)
{
    char nearest[DECIMAL_BYTES_MAX + 16];
    const struct decimal given = read_decimal(text);
    double number = strtod(text, NULL);
    if (!isfinite(number)) {
        return false;
    }
    snprintf(nearest, sizeof nearest, "%.*e", given.n > 0 ? (int)given.n - 1 : 0, number);
    const struct decimal got = read_decimal(nearest);
    /* Below a power of two doubles are closer together than above it. There, the nearest number of so many
     * digits can be another double's, and who writes as few digits as will do writes the next one: 2^-44 is
     * 5.684341886080802e-14, though ...801 is nearer. */
    return same(&given, &got) || strtod(nearest, NULL) != number;
}
