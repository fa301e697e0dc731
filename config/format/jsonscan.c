/* The strict look over a JSON text (RFC 8259, and of what it leaves open the narrow reading): no bytes behind
 * the value, no deep nesting, valid UTF-8, no lone surrogates, no NUL, numbers of a sane length. Runs in the
 * front on requests and in the warden on configuration. What it passes, cJSON reads the same way; duplicate
 * keys are json.c's to find. */
#include "config/format/jsonscan.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "config/format/decimal.h"
#include "config/format/hex_digit.h"
#include "config/format/utf8.h"

/* cJSON looks at 63 characters of a number. */
#define NUMBER_MAX DECIMAL_BYTES_MAX
_Static_assert(NUMBER_MAX < 63, "cJSON would read a part of a number");

struct scanner {
    const char *text;
    size_t size, pos;
    unsigned depth, depth_max;
    /* The text is passed on as it is, so what cJSON cannot hold is allowed: NUL in strings, numbers of any
     * length, any number of values. */
    bool passed_on;
    struct jsonscan *ret;
};

static int refuse_at(struct scanner *scanner, size_t at, const char *why)
{
    scanner->ret->why = why;
    scanner->ret->at = at;
    return -EINVAL;
}

static int refuse(struct scanner *scanner, const char *why)
{
    return refuse_at(scanner, scanner->pos, why);
}

/* The byte at the current position, or -1 at the end. */
static int peek(const struct scanner *scanner)
{
    return scanner->pos < scanner->size ? (unsigned char)scanner->text[scanner->pos] : -1;
}

static bool accept(struct scanner *scanner, char c)
{
    if (peek(scanner) != (unsigned char)c) {
        return false;
    }
    scanner->pos++;
    return true;
}

static void skip_blanks(struct scanner *scanner)
{
    while (peek(scanner) == ' ' || peek(scanner) == '\t' || peek(scanner) == '\n' || peek(scanner) == '\r') {
        scanner->pos++;
    }
}

static bool accept_digits(struct scanner *scanner)
{
    size_t before = scanner->pos;
    while (peek(scanner) >= '0' && peek(scanner) <= '9') {
        scanner->pos++;
    }
    return scanner->pos > before;
}

static int scan_number(struct scanner *scanner)
{
    size_t start = scanner->pos;
    accept(scanner, '-');
    if (!accept(scanner, '0') && !accept_digits(scanner)) {
        return refuse(scanner, "a digit must follow");
    }
    if (peek(scanner) >= '0' && peek(scanner) <= '9') {
        return refuse(scanner, "a number must not begin with 0");
    }
    if (accept(scanner, '.') && !accept_digits(scanner)) {
        return refuse(scanner, "a digit must follow the decimal point");
    }
    if (accept(scanner, 'e') || accept(scanner, 'E')) {
        if (!accept(scanner, '-')) {
            accept(scanner, '+');
        }
        if (!accept_digits(scanner)) {
            return refuse(scanner, "a digit must follow the \"e\"");
        }
    }
    return scanner->pos - start > NUMBER_MAX && !scanner->passed_on
               ? refuse_at(scanner, start, "a number is too long")
               : 0;
}

/* Four hexadecimal digits, or -1. */
static long scan_code_unit(struct scanner *scanner)
{
    long unit = 0;
    for (int i = 0; i < 4; i++, scanner->pos++) {
        int value = hex_digit(peek(scanner));
        if (value < 0) {
            return -1;
        }
        unit = unit * 16 + value;
    }
    return unit;
}

/* Behind "\u". */
static int scan_code_point(struct scanner *scanner)
{
    size_t start = scanner->pos - 2;
    long unit = scan_code_unit(scanner);
    if (unit < 0) {
        return refuse(scanner, "\"\\u\" must be followed by four hexadecimal digits");
    }
    if (unit == 0 && !scanner->passed_on) {
        return refuse_at(scanner, start, "a string must not hold a NUL");
    }
    if (unit < 0xd800 || unit > 0xdfff) {
        return 0;
    }
    bool paired = unit <= 0xdbff && accept(scanner, '\\') && accept(scanner, 'u');
    long low = paired ? scan_code_unit(scanner) : -1;
    return low < 0xdc00 || low > 0xdfff ? refuse_at(scanner, start, "half of a surrogate pair") : 0;
}

static int scan_escape(struct scanner *scanner)
{
    int c = peek(scanner);
    if (c <= 0 || !strchr("\"\\/bfnrtu", c)) {
        return refuse(scanner, "there is no such escape sequence");
    }
    scanner->pos++;
    return c == 'u' ? scan_code_point(scanner) : 0;
}

#define EACH_BYTE(byte) (UINT64_C(0x0101010101010101) * (byte))

/* Whether one of eight bytes may be a quote, a backslash, a control character or not ASCII. A byte that
 * follows one of those may be taken for one; none is missed. */
static bool has_special(uint64_t eight)
{
    uint64_t quote = eight ^ EACH_BYTE('"'), backslash = eight ^ EACH_BYTE('\\');
    uint64_t below = (eight - EACH_BYTE(' ')) | (quote - EACH_BYTE(1)) | (backslash - EACH_BYTE(1));
    return ((below | eight) & EACH_BYTE(0x80)) != 0;
}

/* A text may be megabytes long, and others wait meanwhile. */
static void skip_plain(struct scanner *scanner)
{
    uint64_t eight;
    while (scanner->size - scanner->pos >= sizeof eight) {
        memcpy(&eight, scanner->text + scanner->pos, sizeof eight);
        if (has_special(eight)) {
            return;
        }
        scanner->pos += sizeof eight;
    }
}

/* At its opening quote. */
static int scan_string(struct scanner *scanner)
{
    scanner->pos++;
    for (;;) {
        int c = peek(scanner);
        if (c == -1) {
            return refuse(scanner, "a string does not end");
        }
        if (c < ' ') {
            return refuse(scanner, "a control character in a string must be escaped");
        }
        if (c < 0x80) {
            scanner->pos++;
            if (c != '"' && c != '\\') {
                skip_plain(scanner);
            }
        } else {
            bool valid;
            size_t n = utf8_sequence(scanner->text + scanner->pos, scanner->size - scanner->pos, &valid);
            if (!valid) {
                return refuse(scanner, "not UTF-8");
            }
            scanner->pos += n;
        }
        if (c == '"') {
            return 0;
        }
        int r = c == '\\' ? scan_escape(scanner) : 0;
        if (r < 0) {
            return r;
        }
    }
}

static int scan_word(struct scanner *scanner, const char *word)
{
    for (const char *c = word; *c; c++) {
        if (!accept(scanner, *c)) {
            return refuse(scanner, "expected a value");
        }
    }
    return 0;
}

static int scan_value(struct scanner *scanner);

/* A key and its colon, up to the value. */
static int scan_key(struct scanner *scanner)
{
    if (peek(scanner) != '"') {
        return refuse(scanner, "expected a key in double quotes");
    }
    int r = scan_string(scanner);
    if (r < 0) {
        return r;
    }
    skip_blanks(scanner);
    if (!accept(scanner, ':')) {
        return refuse(scanner, "expected ':'");
    }
    skip_blanks(scanner);
    return 0;
}

/* One item of an array, or key, colon and value of an object. */
static int scan_item(struct scanner *scanner, bool object)
{
    skip_blanks(scanner);
    int r = object ? scan_key(scanner) : 0;
    return r < 0 ? r : scan_value(scanner);
}

/* At its opening bracket. */
static int scan_items(struct scanner *scanner, char closer)
{
    bool object = closer == '}';
    if (scanner->depth == scanner->depth_max) {
        return refuse(scanner, "nested too deep");
    }
    scanner->depth++;
    scanner->pos++;
    skip_blanks(scanner);
    if (!accept(scanner, closer)) {
        for (;;) {
            int r = scan_item(scanner, object);
            if (r < 0) {
                return r;
            }
            skip_blanks(scanner);
            if (accept(scanner, closer)) {
                break;
            }
            if (!accept(scanner, ',')) {
                return refuse(scanner, object ? "expected ',' or '}'" : "expected ',' or ']'");
            }
        }
    }
    scanner->depth--;
    return 0;
}

/* The capacity is the power of two that holds the count. */
static int note_offset(struct scanner *scanner)
{
    struct jsonscan *ret = scanner->ret;
    size_t n = ret->n_offsets;
    if (scanner->passed_on) {
        return 0;
    }
    if (n == JSON_VALUES_MAX) {
        return refuse(scanner, "too many values");
    }
    if ((n & (n - 1)) == 0) {
        uint32_t *larger = reallocarray(ret->offsets, n == 0 ? 1 : 2 * n, sizeof *larger);
        if (!larger) {
            return -ENOMEM;
        }
        ret->offsets = larger;
    }
    ret->offsets[ret->n_offsets++] = (uint32_t)scanner->pos;
    return 0;
}

static int scan_value(struct scanner *scanner)
{
    int r = note_offset(scanner);
    if (r < 0) {
        return r;
    }
    int c = peek(scanner);
    switch (c) {
    case '{':
        return scan_items(scanner, '}');
    case '[':
        return scan_items(scanner, ']');
    case '"':
        return scan_string(scanner);
    case 't':
        return scan_word(scanner, "true");
    case 'f':
        return scan_word(scanner, "false");
    case 'n':
        return scan_word(scanner, "null");
    default:
        return c == '-' || (c >= '0' && c <= '9') ? scan_number(scanner)
                                                  : refuse(scanner, "expected a value");
    }
}

int jsonscan_run(const char *text, size_t size, struct jsonscan *ret)
{
    *ret = (struct jsonscan){0};
    struct scanner scanner = {.text = text, .size = size, .depth_max = JSON_DEPTH_MAX, .ret = ret};
    if (size > INT_MAX) {
        return refuse(&scanner, "too large");
    }
    skip_blanks(&scanner);
    int r = scan_value(&scanner);
    if (r < 0) {
        return r;
    }
    skip_blanks(&scanner);
    return scanner.pos < size ? refuse(&scanner, "there is something behind the value") : 0;
}

static enum json_type type_at(const char *value)
{
    switch (*value) {
    case '{':
        return JSON_OBJECT;
    case '[':
        return JSON_ARRAY;
    case '"':
        return JSON_STRING;
    case 't':
    case 'f':
        return JSON_BOOL;
    case 'n':
        return JSON_NULL;
    default:
        return JSON_NUMBER;
    }
}

/* One code unit of a string that has been scanned, escapes resolved; moves on behind it. */
static long read_code_unit(const char **text)
{
    static const char escapes[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
    const char *at = *text;
    if (*at != '\\') {
        *text = at + 1;
        return (unsigned char)*at;
    }
    if (at[1] != 'u') {
        *text = at + 2;
        return meant[strchr(escapes, at[1]) - escapes];
    }
    *text = at + 6;
    long unit = 0;
    for (int i = 2; i < 6; i++) {
        unit = unit * 16 + hex_digit(at[i]);
    }
    return unit;
}

/* Whether a key that has been scanned, behind its opening quote, reads as the name, which is ASCII. */
static bool reads_as(const char *key, const char *name)
{
    while (*key != '"') {
        if (*name == '\0' || read_code_unit(&key) != *name) {
            return false;
        }
        name++;
    }
    return *name == '\0';
}

/* Keeps the member's value where its name is asked for. Keys are compared as they read, as json.c does: what
 * one of the two finds, the other must not miss. */
static int keep_member(struct scanner *scanner, size_t key, size_t value, const char *const *names, size_t n,
                       struct json_slice *ret)
{
    for (size_t i = 0; i < n; i++) {
        if (!reads_as(scanner->text + key + 1, names[i])) {
            continue;
        }
        if (ret[i].type != JSON_ABSENT) {
            return refuse_at(scanner, key, "the same key again");
        }
        const char *text = scanner->text + value;
        ret[i] = (struct json_slice){.text = text, .size = scanner->pos - value, .type = type_at(text)};
    }
    return 0;
}

static int split_member(struct scanner *scanner, const char *const *names, size_t n, struct json_slice *ret)
{
    size_t key = scanner->pos;
    int r = scan_key(scanner);
    size_t value = scanner->pos;
    r = r < 0 ? r : scan_value(scanner);
    return r < 0 ? r : keep_member(scanner, key, value, names, n, ret);
}

static int split_object(struct scanner *scanner, const char *const *names, size_t n, struct json_slice *ret)
{
    skip_blanks(scanner);
    if (!accept(scanner, '{')) {
        return refuse(scanner, "expected an object");
    }
    skip_blanks(scanner);
    bool ended = accept(scanner, '}');
    while (!ended) {
        skip_blanks(scanner);
        int r = split_member(scanner, names, n, ret);
        if (r < 0) {
            return r;
        }
        skip_blanks(scanner);
        ended = accept(scanner, '}');
        if (!ended && !accept(scanner, ',')) {
            return refuse(scanner, "expected ',' or '}'");
        }
    }
    skip_blanks(scanner);
    return scanner->pos < scanner->size ? refuse(scanner, "there is something behind the value") : 0;
}

int json_split(const char *text, size_t size, const char *const *names, size_t n, struct json_slice *ret,
               const char **ret_why)
{
    struct jsonscan scan = {0};
    struct scanner scanner = {.text = text,
                              .size = size,
                              .depth = 1,
                              .depth_max = JSON_PASSED_DEPTH_MAX,
                              .passed_on = true,
                              .ret = &scan};
    memset(ret, 0, n * sizeof *ret);
    int r = split_object(&scanner, names, n, ret);
    *ret_why = r < 0 ? scan.why : NULL;
    return r;
}

void jsonscan_free(struct jsonscan *scan)
{
    free(scan->offsets);
    *scan = (struct jsonscan){0};
}

size_t jsonscan_number_length(const char *text, size_t size)
{
    size_t n = 0;
    while (n < size && text[n] != '\0' && strchr("+-.0123456789eE", text[n])) {
        n++;
    }
    return n;
}
