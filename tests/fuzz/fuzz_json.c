/* Strict JSON: what is read can be written and read again, and each value stands where json_offset() says;
 * what is refused is refused at a place inside the text. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "config/format/json.h"
#include "config/format/utf8.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "tests/fuzz/fuzz.h"

#define SLICES 3

static void json_freep(struct json_doc **doc)
{
    json_free(*doc);
}

static void write_value(const struct json *value, struct buf *ret);

static void write_number(const struct json *value, struct buf *ret)
{
    uint64_t u64 = 0;
    int64_t i64 = 0;
    double number = 0;
    bool is_u64 = json_u64(value, &u64), is_i64 = json_i64(value, &i64);
    bool is_double = json_double(value, &number);
    REQUIRE(is_double || (!is_u64 && !is_i64));
    REQUIRE(!is_u64 || (double)u64 == number);
    REQUIRE(!is_i64 || (double)i64 == number);
    REQUIRE(!is_u64 || !is_i64 || (int64_t)u64 == i64);
    if (is_u64) {
        buf_printf(ret, "%" PRIu64, u64);
    } else if (is_i64) {
        buf_printf(ret, "%" PRId64, i64);
    } else if (is_double) {
        buf_printf(ret, "%.17g", number);
    } else {
        buf_puts(ret, "1e999");
    }
}

static void write_members(const struct json *value, struct buf *ret, bool object)
{
    size_t n = 0, before = json_offset(value);
    buf_putc(ret, object ? '{' : '[');
    for (const struct json *member = json_first(value); member; member = json_next(member)) {
        buf_puts(ret, n++ > 0 ? "," : "");
        REQUIRE(json_offset(member) > before);
        before = json_offset(member);
        if (object) {
            REQUIRE(json_get(value, json_key(member)) == member); /* no other has its key */
            json_write_string(ret, json_key(member), strlen(json_key(member)));
            buf_putc(ret, ':');
        }
        write_value(member, ret);
    }
    REQUIRE(n == json_count(value));
    buf_putc(ret, object ? '}' : ']');
}

static void write_value(const struct json *value, struct buf *ret)
{
    switch (json_type_of(value)) {
    case JSON_NULL:
        buf_puts(ret, "null");
        break;
    case JSON_BOOL:
        buf_puts(ret, json_bool(value) ? "true" : "false");
        break;
    case JSON_NUMBER:
        write_number(value, ret);
        break;
    case JSON_STRING:
        REQUIRE(utf8_is_valid(json_string(value), json_string_length(value)));
        json_write_string(ret, json_string(value), json_string_length(value));
        break;
    case JSON_ARRAY:
    case JSON_OBJECT:
        write_members(value, ret, json_type_of(value) == JSON_OBJECT);
        break;
    case JSON_ABSENT:
        fuzz_broken(__FILE__, __LINE__, "every value has a type");
    }
}

static void require_equal(const struct json *a, const struct json *b)
{
    double x = 0, y = 0;
    uint64_t m = 0, n = 0;
    REQUIRE(json_type_of(a) == json_type_of(b));
    REQUIRE(json_count(a) == json_count(b));
    REQUIRE(json_bool(a) == json_bool(b));
    REQUIRE(json_string_length(a) == json_string_length(b));
    REQUIRE(!json_string(a) || strcmp(json_string(a), json_string(b)) == 0);
    REQUIRE(json_double(a, &x) == json_double(b, &y) && x == y);
    /* What was whole is exactly the same; what was not may have become whole where doubles are coarse. */
    REQUIRE(!json_u64(a, &m) || (json_u64(b, &n) && m == n));
}

static void require_equal_members(const struct json *a, const struct json *b)
{
    require_equal(a, b);
    enum json_type type = json_type_of(a);
    if (type != JSON_ARRAY && type != JSON_OBJECT) {
        return;
    }
    const struct json *y = json_first(b);
    for (const struct json *x = json_first(a); x; x = json_next(x), y = json_next(y)) {
        REQUIRE(type == JSON_ARRAY || strcmp(json_key(x), json_key(y)) == 0);
        require_equal_members(x, y);
    }
}

/* The byte that a value of this type begins with. */
static bool begins(const struct json *value, uint8_t byte)
{
    static const char *const first[] = {
        [JSON_ABSENT] = "",   [JSON_NULL] = "n",  [JSON_BOOL] = "tf", [JSON_NUMBER] = "-0123456789",
        [JSON_STRING] = "\"", [JSON_ARRAY] = "[", [JSON_OBJECT] = "{"};
    return byte != 0 && strchr(first[json_type_of(value)], byte);
}

static void require_places(const struct json *value, const uint8_t *data, size_t size)
{
    REQUIRE(json_offset(value) < size);
    REQUIRE(begins(value, data[json_offset(value)]));
    enum json_type type = json_type_of(value);
    if (type == JSON_ARRAY || type == JSON_OBJECT) {
        for (const struct json *member = json_first(value); member; member = json_next(member)) {
            require_places(member, data, size);
        }
    }
}

/* The other reader, which passes values on as they stand, finds them where this one does. */
static void require_slices(const struct json *root, const uint8_t *data, size_t size)
{
    const char *names[SLICES] = {"", "", ""};
    const struct json *members[SLICES] = {NULL};
    struct json_slice slices[SLICES];
    const char *why, *text = (const char *)data;
    size_t n = 0;
    for (const struct json *member = json_first(root); member && n < SLICES; member = json_next(member)) {
        const char *key = json_key(member);
        bool plain = *key && strspn(key, "abcdefghijklmnopqrstuvwxyz_0123456789") == strlen(key);
        if (plain) {
            names[n] = key;
            members[n++] = member;
        }
    }
    REQUIRE(json_split(text, size, names, n, slices, &why) == 0);
    for (size_t i = 0; i < n; i++) {
        REQUIRE(slices[i].type == json_type_of(members[i]));
        REQUIRE(slices[i].text == text + json_offset(members[i]));
        REQUIRE(slices[i].size <= size - json_offset(members[i]));
    }
}

void fuzz_one(const uint8_t *data, size_t size)
{
    CLEANUP(json_freep) struct json_doc *doc = NULL, *doc_again = NULL;
    CLEANUP(buf_free) struct buf written = BUF_INIT;
    struct err err = {0};
    int r = json_parse((const char *)data, size, &doc, &err);
    if (r < 0) {
        REQUIRE(!doc);
        fuzz_require_json_refusal((struct expected_refusal){r, &err, data, size});
        return;
    }
    REQUIRE(r == 0 && !err_is_set(&err));
    require_places(json_root(doc), data, size);
    if (json_type_of(json_root(doc)) == JSON_OBJECT) {
        require_slices(json_root(doc), data, size);
    }
    write_value(json_root(doc), &written);
    REQUIRE(json_parse(written.data, written.len, &doc_again, &err) == 0);
    require_equal_members(json_root(doc), json_root(doc_again));
}
