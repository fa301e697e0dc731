/* The values of POST /run-code, looked at before anything runs. Runs in the front, on JSON that
 * config/format/json.c has read strictly: nesting is bounded. JSON stands for itself, but for objects with a
 * key `$type`, which is one of a table. What the types' contents must be is checked here; the evaluator makes
 * them. */
#include "server/doors/run_code_values.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "config/format/json.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"

#define FIELD_BYTES 192
/* As the bridge takes names. */
#define FUNCTION_ID_BYTES_MAX 200

static int bad(struct err *reterr, const char *field, const char *why)
{
    return err_set(reterr, ERR_INVALID, EINVAL, field, "%s: %s", field, why);
}

typedef int (*check_fn)(const struct json *member, const char *field, struct err *reterr);

static int check_undefined(const struct json *member, const char *field, struct err *reterr)
{
    return member ? bad(reterr, field, "undefined has no value") : 0;
}

static int check_bigint(const struct json *member, const char *field, struct err *reterr)
{
    const char *text = json_string(member);
    text = text && *text == '-' ? text + 1 : text;
    if (!text || !*text || text[strspn(text, "0123456789")] != '\0') {
        return bad(reterr, field, "must be a whole number in a string");
    }
    return 0;
}

static int check_number(const struct json *member, const char *field, struct err *reterr)
{
    static const char *const values[] = {"NaN", "Infinity", "-Infinity", "-0"};
    const char *text = json_string(member);
    for (size_t i = 0; text && i < ARRAY_SIZE(values); i++) {
        if (strcmp(text, values[i]) == 0) {
            return 0;
        }
    }
    return bad(reterr, field, "must be \"NaN\", \"Infinity\", \"-Infinity\" or \"-0\"");
}

/* The evaluator reads it as a double. */
static int check_exact(const struct json *number, const char *field, struct err *reterr)
{
    return json_is_exact(number)
               ? 0
               : bad(reterr, field, "must be a number that JavaScript can hold: it would become another one");
}

static int check_date(const struct json *member, const char *field, struct err *reterr)
{
    enum json_type type = json_type_of(member);
    if (type == JSON_NUMBER) {
        return check_exact(member, field, reterr);
    }
    return type == JSON_STRING || type == JSON_NULL
               ? 0
               : bad(reterr, field, "must be a date in a string, milliseconds since 1970, or null");
}

static int check_list(const struct json *list, const char *field, struct err *reterr)
{
    size_t i = 0;
    for (const struct json *item = json_first(list); item; item = json_next(item)) {
        char name[FIELD_BYTES];
        snprintf(name, sizeof name, "%.150s[%zu]", field, i++);
        int r = run_code_check_value(item, name, reterr);
        if (r < 0) {
            return r;
        }
    }
    return 0;
}

static int check_values(const struct json *member, const char *field, struct err *reterr)
{
    return json_type_of(member) == JSON_ARRAY ? check_list(member, field, reterr)
                                              : bad(reterr, field, "must be an array");
}

/* [key, value] each. */
static int check_pairs(const struct json *member, const char *field, bool string_keys, struct err *reterr)
{
    if (json_type_of(member) != JSON_ARRAY) {
        return bad(reterr, field, "must be an array");
    }
    size_t i = 0;
    for (const struct json *pair = json_first(member); pair; pair = json_next(pair)) {
        char name[FIELD_BYTES];
        snprintf(name, sizeof name, "%.150s[%zu]", field, i++);
        if (json_type_of(pair) != JSON_ARRAY || json_count(pair) != 2 ||
            (string_keys && json_type_of(json_first(pair)) != JSON_STRING)) {
            return bad(reterr, name, string_keys ? "must be [string, value]" : "must be [key, value]");
        }
        int r = check_list(pair, name, reterr);
        if (r < 0) {
            return r;
        }
    }
    return 0;
}

static int check_map(const struct json *member, const char *field, struct err *reterr)
{
    return check_pairs(member, field, false, reterr);
}

static int check_object(const struct json *member, const char *field, struct err *reterr)
{
    return check_pairs(member, field, true, reterr);
}

/* What bytes may be inside, and of how many each element is. */
static const struct ctor {
    const char *name;
    size_t element_bytes;
} ctors[] = {
    {"ArrayBuffer", 1},       {"DataView", 1},     {"Int8Array", 1},    {"Uint8Array", 1},
    {"Uint8ClampedArray", 1}, {"Int16Array", 2},   {"Uint16Array", 2},  {"Int32Array", 4},
    {"Uint32Array", 4},       {"Float32Array", 4}, {"Float64Array", 8}, {"BigInt64Array", 8},
    {"BigUint64Array", 8},
};

static const struct ctor *find_ctor(const struct json *member)
{
    const char *text = json_string(member);
    for (size_t i = 0; text && i < ARRAY_SIZE(ctors); i++) {
        if (strcmp(text, ctors[i].name) == 0) {
            return &ctors[i];
        }
    }
    return NULL;
}

static int check_ctor(const struct json *member, const char *field, struct err *reterr)
{
    return find_ctor(member)
               ? 0
               : bad(reterr, field, "must be ArrayBuffer, DataView or a typed array's constructor");
}

static int check_base64(const struct json *member, const char *field, struct err *reterr)
{
    const char *text = json_string(member);
    size_t n = 0;
    while (text && (isalnum((unsigned char)text[n]) || text[n] == '+' || text[n] == '/')) {
        n++;
    }
    size_t padding = text ? strspn(text + n, "=") : 0;
    if (!text || text[n + padding] != '\0' || padding > 2 || (n + padding) % 4 != 0) {
        return bad(reterr, field, "must be base64");
    }
    return 0;
}

/* Of `ctor` and `data` together, each of which will do: there are no parts of elements. */
static int check_bytes(const struct json *value, const char *field, struct err *reterr)
{
    const struct ctor *ctor = find_ctor(json_get(value, "ctor"));
    size_t digits = strcspn(json_string(json_get(value, "data")), "="); /* six bits each */
    if (digits * 6 / 8 % ctor->element_bytes == 0) {
        return 0;
    }
    char name[FIELD_BYTES], why[64];
    snprintf(name, sizeof name, "%.150s.data", field);
    snprintf(why, sizeof why, "must be whole elements of %zu bytes each", ctor->element_bytes);
    return bad(reterr, name, why);
}

static int check_id(const struct json *member, const char *field, struct err *reterr)
{
    size_t length = json_string_length(member);
    return json_type_of(member) == JSON_STRING && length > 0 && length <= FUNCTION_ID_BYTES_MAX
               ? 0
               : bad(reterr, field, "must be a string of 1 to 200 bytes");
}

/* A type's members beside `$type`, and what must hold of all of them together. */
static const struct type {
    const char *name;
    struct {
        const char *name;
        check_fn check;
    } members[2];
    check_fn check_value; /* NULL: nothing */
} types[] = {
    {"undefined", {{"value", check_undefined}}, NULL},
    {"bigint", {{"value", check_bigint}}, NULL},
    {"number", {{"value", check_number}}, NULL},
    {"date", {{"value", check_date}}, NULL},
    {"map", {{"entries", check_map}}, NULL},
    {"set", {{"values", check_values}}, NULL},
    {"bytes", {{"ctor", check_ctor}, {"data", check_base64}}, check_bytes},
    {"function", {{"id", check_id}}, NULL},
    {"promise", {{"id", check_id}}, NULL},
    {"object", {{"entries", check_object}}, NULL},
};

static const struct type *find_type(const struct json *value)
{
    const char *name = json_string(json_get(value, "$type"));
    for (size_t i = 0; name && i < ARRAY_SIZE(types); i++) {
        if (strcmp(types[i].name, name) == 0) {
            return &types[i];
        }
    }
    return NULL;
}

static int check_typed(const struct json *value, const char *field, struct err *reterr)
{
    const struct type *type = find_type(value);
    char name[FIELD_BYTES];
    if (!type) {
        return bad(reterr, field, "has an unknown $type");
    }
    size_t expected = 1;
    for (size_t i = 0; i < ARRAY_SIZE(type->members) && type->members[i].name; i++) {
        const struct json *member = json_get(value, type->members[i].name);
        snprintf(name, sizeof name, "%.150s.%s", field, type->members[i].name);
        expected += member != NULL;
        int r = type->members[i].check(member, name, reterr);
        if (r < 0) {
            return r;
        }
    }
    if (json_count(value) != expected) {
        return bad(reterr, field, "has members that its $type does not");
    }
    return type->check_value ? type->check_value(value, field, reterr) : 0;
}

int run_code_check_value(const struct json *value, const char *field, struct err *reterr)
{
    if (json_type_of(value) == JSON_ARRAY) {
        return check_list(value, field, reterr);
    }
    if (json_type_of(value) == JSON_NUMBER) {
        return check_exact(value, field, reterr);
    }
    if (json_type_of(value) != JSON_OBJECT) {
        return 0;
    }
    if (json_get(value, "$type")) {
        return check_typed(value, field, reterr);
    }
    for (const struct json *member = json_first(value); member; member = json_next(member)) {
        char name[FIELD_BYTES];
        snprintf(name, sizeof name, "%.120s.%.60s", field, json_key(member));
        int r = run_code_check_value(member, name, reterr);
        if (r < 0) {
            return r;
        }
    }
    return 0;
}

int run_code_check_function(const struct json *value, const char *field, struct err *reterr)
{
    const struct type *type = json_type_of(value) == JSON_OBJECT ? find_type(value) : NULL;
    if (!type || strcmp(type->name, "function") != 0) {
        return bad(reterr, field, "must be true or a function");
    }
    return check_typed(value, field, reterr);
}
