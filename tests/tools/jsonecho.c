/* Reads JSON with the program's own reader and writes what it understood as JSON again, for another reader to
 * be held against it. Frames in, each a 32-bit little-endian length and that many bytes; for each out a
 * status byte (0 or 1), a length, and the echo or the error's text. Numbers come back as whole ones where
 * they are, else with 17 digits; one that is too large for a double as the string "~". */
#include <endian.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#include "config/format/json.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "jail/base/io.h"

#define INPUT_MAX (64u << 20)

static void echo_number(const struct json *value, struct buf *ret)
{
    uint64_t u64;
    int64_t i64;
    double number;
    if (json_u64(value, &u64)) {
        buf_printf(ret, "%" PRIu64, u64);
    } else if (json_i64(value, &i64)) {
        buf_printf(ret, "%" PRId64, i64);
    } else if (json_double(value, &number)) {
        buf_printf(ret, "%.17g", number);
    } else {
        buf_puts(ret, "\"~\"");
    }
}

static void echo(const struct json *value, struct buf *ret);

static void echo_members(const struct json *value, bool object, struct buf *ret)
{
    buf_putc(ret, object ? '{' : '[');
    for (const struct json *member = json_first(value); member; member = json_next(member)) {
        if (member != json_first(value)) {
            buf_putc(ret, ',');
        }
        if (object) {
            const char *key = json_key(member);
            json_write_string(ret, key, __builtin_strlen(key));
            buf_putc(ret, ':');
        }
        echo(member, ret);
    }
    buf_putc(ret, object ? '}' : ']');
}

static void echo(const struct json *value, struct buf *ret)
{
    switch (json_type_of(value)) {
    case JSON_NULL:
        buf_puts(ret, "null");
        break;
    case JSON_BOOL:
        buf_puts(ret, json_bool(value) ? "true" : "false");
        break;
    case JSON_NUMBER:
        echo_number(value, ret);
        break;
    case JSON_STRING:
        json_write_string(ret, json_string(value), json_string_length(value));
        break;
    case JSON_ARRAY:
    case JSON_OBJECT:
        echo_members(value, json_type_of(value) == JSON_OBJECT, ret);
        break;
    case JSON_ABSENT:
        break;
    }
}

static void answer(const char *text, size_t size, struct buf *ret)
{
    struct err err = {0};
    struct json_doc *doc = NULL;
    CLEANUP(buf_free) struct buf output = BUF_INIT;
    bool accepted = json_parse(text, size, &doc, &err) == 0;
    if (accepted) {
        echo(json_root(doc), &output);
        json_free(doc);
    } else {
        buf_puts(&output, err.text);
    }
    uint32_t len = htole32((uint32_t)output.len);
    buf_putc(ret, accepted ? 0 : 1);
    buf_append(ret, &len, sizeof len);
    buf_append(ret, output.data, output.len);
}

int main(void)
{
    uint32_t size;
    CLEANUP(buf_free) struct buf answers = BUF_INIT;
    for (;;) {
        CLEANUP(buf_free) struct buf input = BUF_INIT;
        ssize_t n = io_read_full(STDIN_FILENO, &size, sizeof size);
        if (n == 0) {
            return io_write_full(STDOUT_FILENO, answers.data ? answers.data : "", answers.len) < 0;
        }
        char *to = n == sizeof size && le32toh(size) <= INPUT_MAX ? buf_reserve(&input, le32toh(size)) : NULL;
        if (!to || io_read_full(STDIN_FILENO, to, le32toh(size)) != (ssize_t)le32toh(size)) {
            fprintf(stderr, "jsonecho: a frame is cut short\n");
            return 1;
        }
        answer(to, le32toh(size), &answers);
    }
}
