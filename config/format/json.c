/* JSON documents, read with cJSON behind a strict scan, and JSON strings written. Runs in the front on
 * requests, in the warden and the command line on configuration.
 *
 * cJSON keeps numbers as doubles only. Exact whole numbers and places are needed, so each of its nodes is
 * annotated in two members that it leaves unused for that type: `valueint` holds the value's offset in the
 * text, and a number's `valuestring` its digits (cJSON_Delete() frees it like any other). */
#include "config/format/json.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "config/format/decimal.h"
#include "config/format/jsonscan.h"
#include "config/format/utf8.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"

struct json_doc {
    cJSON *root;
};

/* What is being parsed and how its errors are to be put. */
struct input {
    const char *file; /* NULL: a request */
    const char *text;
    size_t size;
    struct err *reterr;
};

static int fail_at(const struct input *input, size_t offset, const char *why)
{
    unsigned line = 1, column = 1;
    for (size_t i = 0; i < offset; i++) {
        bool continues_a_character = ((unsigned char)input->text[i] & 0xc0) == 0x80;
        if (input->text[i] == '\n') {
            line++;
            column = 1;
        } else if (!continues_a_character) {
            column++;
        }
    }
    if (!input->file) {
        return err_set(input->reterr, ERR_INVALID, EINVAL, NULL, "line %u, column %u: %s", line, column, why);
    }
    char item[256];
    snprintf(item, sizeof item, "%.200s:%u:%u", input->file, line, column);
    return err_set(input->reterr, ERR_CONFIG, EINVAL, item, "%s", why);
}

static int fail_memory(const struct input *input)
{
    return err_errno(input->reterr, ENOMEM, "while reading JSON");
}

/* Puts each value's offset and each number's digits into the nodes, which come in the order of the scan. */
static int annotate(const struct input *input, cJSON *node, const struct jsonscan *scan, size_t *next)
{
    size_t offset = scan->offsets[(*next)++];
    node->valueint = (int)offset;
    if ((node->type & 0xff) == cJSON_Number) {
        size_t len = jsonscan_number_length(input->text + offset, input->size - offset);
        node->valuestring = strndup(input->text + offset, len);
        return node->valuestring ? 0 : fail_memory(input);
    }
    for (cJSON *child = node->child; child; child = child->next) {
        int r = annotate(input, child, scan, next);
        if (r < 0) {
            return r;
        }
    }
    return 0;
}

/* Of an object. Hashes are compared first: keys lie all over the memory, and there may be thousands. */
struct member {
    uint64_t hash; /* of the key */
    const cJSON *node;
};

/* Eight bytes at a time: keys may be megabytes, and others wait meanwhile. Whoever makes keys that have one
 * hash gains nothing but comparisons of strings. */
static uint64_t hash_key(const char *key)
{
    const uint64_t odd = UINT64_C(0x9e3779b97f4a7c15);
    size_t left = strlen(key);
    uint64_t hash = left, eight;
    for (; left > 0; key += sizeof eight) {
        size_t n = left < sizeof eight ? left : sizeof eight;
        eight = 0;
        memcpy(&eight, key, n);
        hash = (hash ^ eight) * odd;
        hash ^= hash >> 29;
        left -= n;
    }
    return hash;
}

static int compare_members(const void *a, const void *b)
{
    const struct member *x = a, *y = b;
    if (x->hash != y->hash) {
        return x->hash < y->hash ? -1 : 1;
    }
    int order = strcmp(x->node->string, y->node->string);
    return order != 0 ? order
                      : (x->node->valueint > y->node->valueint) - (x->node->valueint < y->node->valueint);
}

static bool same_key(const struct member *a, const struct member *b)
{
    return a->hash == b->hash && strcmp(a->node->string, b->node->string) == 0;
}

/* Keys are compared as they read, escapes resolved. */
static int refuse_duplicate_keys_of(const struct input *input, const cJSON *object)
{
    size_t n = json_count((const struct json *)object);
    if (n < 2) {
        return 0;
    }
    CLEANUP(freep) struct member *members = calloc(n, sizeof *members);
    if (!members) {
        return fail_memory(input);
    }
    size_t i = 0;
    for (const cJSON *child = object->child; child; child = child->next) {
        members[i++] = (struct member){.hash = hash_key(child->string), .node = child};
    }
    qsort(members, n, sizeof *members, compare_members);
    for (i = 1; i < n; i++) {
        if (same_key(&members[i - 1], &members[i])) {
            char why[128];
            snprintf(why, sizeof why, "duplicate key \"%.80s\"", members[i].node->string);
            return fail_at(input, (size_t)members[i].node->valueint, why);
        }
    }
    return 0;
}

static int refuse_duplicate_keys(const struct input *input, const cJSON *node)
{
    int r = (node->type & 0xff) == cJSON_Object ? refuse_duplicate_keys_of(input, node) : 0;
    for (const cJSON *child = node->child; child && r == 0; child = child->next) {
        r = refuse_duplicate_keys(input, child);
    }
    return r;
}

static int parse(const struct input *input, struct json_doc **ret)
{
    CLEANUP(jsonscan_free) struct jsonscan scan = {0};
    int r = jsonscan_run(input->text, input->size, &scan);
    if (r < 0) {
        return r == -ENOMEM ? fail_memory(input) : fail_at(input, scan.at, scan.why);
    }
    struct json_doc *doc = calloc(1, sizeof *doc);
    if (!doc) {
        return fail_memory(input);
    }
    doc->root = cJSON_ParseWithLength(input->text, input->size);
    size_t next = 0;
    r = doc->root ? annotate(input, doc->root, &scan, &next) : fail_memory(input);
    r = r < 0 ? r : refuse_duplicate_keys(input, doc->root);
    if (r < 0) {
        json_free(doc);
        return r;
    }
    *ret = doc;
    return 0;
}

int json_parse(const char *text, size_t size, struct json_doc **ret, struct err *reterr)
{
    const struct input input = {.text = text, .size = size, .reterr = reterr};
    return parse(&input, ret);
}

int json_parse_file(const char *file, const char *text, size_t size, struct json_doc **ret,
                    struct err *reterr)
{
    const struct input input = {.file = file, .text = text, .size = size, .reterr = reterr};
    return parse(&input, ret);
}

void json_free(struct json_doc *doc)
{
    if (doc) {
        cJSON_Delete(doc->root);
        free(doc);
    }
}

/* A struct json is a node of cJSON's under a name that does not need its header. */
static const cJSON *node_of(const struct json *value)
{
    return (const cJSON *)value;
}

static const struct json *value_of(const cJSON *node)
{
    return (const struct json *)node;
}

const struct json *json_root(const struct json_doc *doc)
{
    return value_of(doc->root);
}

enum json_type json_type_of(const struct json *value)
{
    const cJSON *node = node_of(value);
    switch (node ? node->type & 0xff : cJSON_Invalid) {
    case cJSON_NULL:
        return JSON_NULL;
    case cJSON_False:
    case cJSON_True:
        return JSON_BOOL;
    case cJSON_Number:
        return JSON_NUMBER;
    case cJSON_String:
        return JSON_STRING;
    case cJSON_Array:
        return JSON_ARRAY;
    case cJSON_Object:
        return JSON_OBJECT;
    default:
        return JSON_ABSENT;
    }
}

const char *json_type_to_string(enum json_type type)
{
    static const char *const names[] = {
        [JSON_ABSENT] = "nothing",   [JSON_NULL] = "null",       [JSON_BOOL] = "true or false",
        [JSON_NUMBER] = "a number",  [JSON_STRING] = "a string", [JSON_ARRAY] = "an array",
        [JSON_OBJECT] = "an object",
    };
    return (size_t)type < ARRAY_SIZE(names) ? names[type] : "unknown";
}

const struct json *json_get(const struct json *object, const char *key)
{
    if (json_type_of(object) != JSON_OBJECT) {
        return NULL;
    }
    for (const cJSON *child = node_of(object)->child; child; child = child->next) {
        if (strcmp(child->string, key) == 0) {
            return value_of(child);
        }
    }
    return NULL;
}

const struct json *json_given(const struct json *value)
{
    return json_type_of(value) == JSON_NULL ? NULL : value;
}

const char *json_key(const struct json *member)
{
    return member ? node_of(member)->string : NULL;
}

const struct json *json_first(const struct json *array_or_object)
{
    return array_or_object ? value_of(node_of(array_or_object)->child) : NULL;
}

const struct json *json_next(const struct json *member)
{
    return member ? value_of(node_of(member)->next) : NULL;
}

size_t json_count(const struct json *array_or_object)
{
    size_t n = 0;
    for (const struct json *item = json_first(array_or_object); item; item = json_next(item)) {
        n++;
    }
    return n;
}

size_t json_offset(const struct json *value)
{
    return value ? (size_t)node_of(value)->valueint : 0;
}

const char *json_string(const struct json *value)
{
    return json_type_of(value) == JSON_STRING ? node_of(value)->valuestring : NULL;
}

size_t json_string_length(const struct json *value)
{
    const char *text = json_string(value);
    return text ? strlen(text) : 0;
}

struct json_slice json_escaped(const struct json *string, const char *text)
{
    const char *first = text + json_offset(string) + 1, *end = first;
    while (*end != '"') {
        end += *end == '\\' ? 2 : 1;
    }
    return (struct json_slice){first, (size_t)(end - first), JSON_STRING};
}

bool json_bool(const struct json *value)
{
    return value && (node_of(value)->type & 0xff) == cJSON_True;
}

/* The value of digits with an exponent, as sign and magnitude; false where it is not whole or above 64 bits.
 */
static bool whole_number(const char *text, bool *ret_negative, uint64_t *ret)
{
    static const long exponent_max = 1000; /* beyond what a number's length can make up for */
    uint64_t magnitude = 0;
    long exponent = 0, pending_zeros = 0;
    bool fraction = false;
    *ret_negative = *text == '-';
    text += *ret_negative ? 1 : 0;
    /* Zeros are held back until a digit follows them: those at the end, of "10.00" or "1e2", never overflow.
     */
    for (; *text && *text != 'e' && *text != 'E'; text++) {
        if (*text == '.') {
            fraction = true;
            continue;
        }
        exponent -= fraction ? 1 : 0;
        pending_zeros++;
        if (*text == '0') {
            continue;
        }
        for (; pending_zeros > 0 && magnitude > 0; pending_zeros--) {
            if (__builtin_mul_overflow(magnitude, 10u, &magnitude)) {
                return false;
            }
        }
        pending_zeros = 0;
        if (__builtin_add_overflow(magnitude, (uint64_t)(*text - '0'), &magnitude)) {
            return false;
        }
    }
    exponent += pending_zeros;
    if (*text) {
        long written = strtol(text + 1, NULL, 10);
        exponent += written > exponent_max ? exponent_max : written < -exponent_max ? -exponent_max : written;
    }
    for (; exponent > 0 && magnitude > 0; exponent--) {
        if (__builtin_mul_overflow(magnitude, 10u, &magnitude)) {
            return false;
        }
    }
    *ret = magnitude;
    return exponent >= 0 || magnitude == 0;
}

bool json_u64(const struct json *value, uint64_t *ret)
{
    bool negative;
    uint64_t magnitude;
    if (json_type_of(value) != JSON_NUMBER ||
        !whole_number(node_of(value)->valuestring, &negative, &magnitude) || (negative && magnitude > 0)) {
        return false;
    }
    *ret = magnitude;
    return true;
}

bool json_i64(const struct json *value, int64_t *ret)
{
    bool negative;
    uint64_t magnitude;
    if (json_type_of(value) != JSON_NUMBER ||
        !whole_number(node_of(value)->valuestring, &negative, &magnitude) ||
        magnitude > (uint64_t)INT64_MAX + (negative ? 1 : 0)) {
        return false;
    }
    *ret = negative && magnitude > 0 ? -(int64_t)(magnitude - 1) - 1 : (int64_t)magnitude;
    return true;
}

bool json_double(const struct json *value, double *ret)
{
    if (json_type_of(value) != JSON_NUMBER || !isfinite(node_of(value)->valuedouble)) {
        return false;
    }
    *ret = node_of(value)->valuedouble;
    return true;
}

bool json_is_exact(const struct json *value)
{
    return json_type_of(value) == JSON_NUMBER && decimal_is_double(node_of(value)->valuestring);
}

/* What may stand in a JSON string as it is. */
static bool is_plain(char c)
{
    return (unsigned char)c >= ' ' && (unsigned char)c < 0x80 && c != '"' && c != '\\';
}

/* One control character, quote or backslash. */
static void write_escape(struct buf *ret, char c)
{
    static const char from[] = "\"\\\b\f\n\r\t", to[] = "\"\\bfnrt";
    const char *known = strchr(from, c);
    if (c != '\0' && known) {
        buf_putc(ret, '\\');
        buf_putc(ret, to[known - from]);
    } else {
        buf_printf(ret, "\\u%04x", (unsigned)(unsigned char)c);
    }
}

int json_write_string(struct buf *ret, const char *text, size_t len)
{
    static const char replacement[] = "\xef\xbf\xbd";
    buf_putc(ret, '"');
    for (size_t i = 0; i < len && !ret->failed;) {
        size_t run = i;
        while (run < len && is_plain(text[run])) {
            run++;
        }
        buf_append(ret, text + i, run - i);
        i = run;
        if (i < len && (unsigned char)text[i] < 0x80) {
            write_escape(ret, text[i]);
            i++;
        } else if (i < len) {
            bool valid;
            size_t n = utf8_sequence(text + i, len - i, &valid);
            buf_append(ret, valid ? text + i : replacement, valid ? n : sizeof replacement - 1);
            i += n;
        }
    }
    buf_putc(ret, '"');
    return ret->failed ? -ENOMEM : 0;
}
