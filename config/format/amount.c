/* Amounts with a unit. Runs wherever configuration is read. Which kind of amount a field is says its name:
 * there is no list of fields beside the schema. */
#include "config/format/amount.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "jail/base/cleanup.h"

#define MS_PER_SECOND 1000u

enum kind { BYTES, MILLISECONDS, RESOURCE, NEITHER };

static const struct {
    const char *suffix, *wrong, *other;
} kinds[] = {
    [BYTES] = {"_bytes", "is not a whole number of bytes, alone or with B, KiB, MiB, GiB or TiB (\"512MiB\")",
               "is a time; this is a number of bytes, alone or with B, KiB, MiB, GiB or TiB (\"512MiB\")"},
    [MILLISECONDS] = {"_ms", "is not a whole number of milliseconds, alone or with ms, s, m or h (\"30s\")",
                      "is a size; this is a number of milliseconds, alone or with ms, s, m or h (\"30s\")"},
    [RESOURCE] = {"",
                  "is not a whole number, alone or of bytes (\"8MiB\") or seconds (\"5s\", \"2m\", \"1h\")",
                  "is less than a second; this is a number of whole ones (\"5s\")"},
    [NEITHER] = {"", "is not a whole number", "is not a whole number"},
};

static const struct {
    const char *name;
    enum kind kind;
    uint64_t factor;
} units[] = {
    {"B", BYTES, 1},
    {"KiB", BYTES, 1ull << 10},
    {"MiB", BYTES, 1ull << 20},
    {"GiB", BYTES, 1ull << 30},
    {"TiB", BYTES, 1ull << 40},
    {"ms", MILLISECONDS, 1},
    {"s", MILLISECONDS, 1000},
    {"m", MILLISECONDS, 60000},
    {"h", MILLISECONDS, 3600000},
};

static enum kind kind_of(const char *field)
{
    if (strcmp(field, "soft") == 0 || strcmp(field, "hard") == 0) {
        return RESOURCE;
    }
    for (enum kind kind = 0; kind < RESOURCE; kind++) {
        size_t length = strlen(kinds[kind].suffix);
        for (const char *at = field; (at = strstr(at, kinds[kind].suffix)); at += length) {
            if (at[length] == '\0' || at[length] == '_') {
                return kind;
            }
        }
    }
    return NEITHER;
}

bool amount_is(const char *field)
{
    return kind_of(field) != NEITHER;
}

const char *amount_parse(const char *field, const char *text, size_t length, uint64_t *ret)
{
    enum kind kind = kind_of(field);
    uint64_t number = 0, factor;
    size_t digits = 0;
    bool fits = true;
    for (; digits < length && text[digits] >= '0' && text[digits] <= '9'; digits++) {
        fits = fits && !__builtin_mul_overflow(number, 10u, &number) &&
               !__builtin_add_overflow(number, (uint64_t)(text[digits] - '0'), &number);
    }
    factor = digits == length ? 1 : 0;
    for (size_t i = 0; i < ARRAY_SIZE(units); i++) {
        if (digits > 0 && strlen(units[i].name) == length - digits &&
            memcmp(units[i].name, text + digits, length - digits) == 0) {
            bool seconds = kind == RESOURCE && units[i].kind == MILLISECONDS;
            if ((units[i].kind != kind && kind != RESOURCE) || (seconds && units[i].factor < MS_PER_SECOND)) {
                return kinds[kind].other;
            }
            factor = seconds ? units[i].factor / MS_PER_SECOND : units[i].factor;
        }
    }
    if (digits == 0 || factor == 0) {
        return kinds[kind].wrong;
    }
    if (!fits || __builtin_mul_overflow(number, factor, &number)) {
        return AMOUNT_TOO_LARGE;
    }
    *ret = number;
    return NULL;
}

enum amount_unit amount_unit(const char *text, size_t length)
{
    bool plain = length == 0 || (text[length - 1] >= '0' && text[length - 1] <= '9');
    return plain ? AMOUNT_PLAIN : text[length - 1] == 'B' ? AMOUNT_BYTES : AMOUNT_TIME;
}

const char *amount_print(enum amount_unit unit, uint64_t value, char ret[AMOUNT_TEXT_MAX])
{
    const char *name = "";
    uint64_t factor = 1;
    for (size_t i = 0; i < ARRAY_SIZE(units) && unit != AMOUNT_PLAIN; i++) {
        if (value > 0 && value % units[i].factor == 0 &&
            units[i].kind == (unit == AMOUNT_BYTES ? BYTES : MILLISECONDS)) {
            name = units[i].name;
            factor = units[i].factor;
        }
    }
    snprintf(ret, AMOUNT_TEXT_MAX, "%" PRIu64 "%s", value / factor, name);
    return ret;
}
