/* JSON, read strictly: json.c is the only file that includes cJSON. Everything cJSON would let pass is
 * refused before it is asked: duplicate keys, invalid UTF-8, lone surrogates, NUL in strings, more than
 * JSON_DEPTH_MAX levels, bytes behind the value. Whole numbers are exact as far as 64 bits go. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/format/jsonscan.h"

struct buf;
struct err;
struct json; /* a value inside a document; NULL stands for "absent" and every function takes it */
struct json_doc;

/* ERR_INVALID with "line L, column C: ..." on failure. Values live as long as the document, which needs the
 * text no longer. */
int json_parse(const char *text, size_t size, struct json_doc **ret, struct err *reterr);
/* The same for an operator's file: ERR_CONFIG with item FILE:LINE:COLUMN. */
int json_parse_file(const char *file, const char *text, size_t size, struct json_doc **ret,
                    struct err *reterr);
void json_free(struct json_doc *doc);
const struct json *json_root(const struct json_doc *doc);

/* Appends a slice of json_split()'s in one way to write it: no blanks, strings with the escapes that JSON
 * asks for and no others, numbers as they stand. -EEXIST: an object in there has the same key twice; -E2BIG:
 * one has more than JSON_REWRITTEN_KEYS_MAX, of which each costs time; -ENOMEM. */
#define JSON_REWRITTEN_KEYS_MAX (1u << 16)
int json_rewrite(const struct json_slice *slice, struct buf *ret);

enum json_type json_type_of(const struct json *value);
const char *json_type_to_string(enum json_type type); /* "a string", "an object", ... for messages */
const struct json *json_get(const struct json *object, const char *key);
/* NULL for null: for an optional member both say the same. */
const struct json *json_given(const struct json *value);
const char *json_key(const struct json *member); /* the key of an object's member */
const struct json *json_first(const struct json *array_or_object);
const struct json *json_next(const struct json *member);
size_t json_count(const struct json *array_or_object);
size_t json_offset(const struct json *value);      /* of its first byte in the text that was parsed */
const char *json_string(const struct json *value); /* NULL: not a string. Holds no NUL */
size_t json_string_length(const struct json *value);
/* A string as it stands between its quotes in the text that was parsed. */
struct json_slice json_escaped(const struct json *string, const char *text);
bool json_bool(const struct json *value);
/* False where it is not a whole number that the type holds. Exact, also above 2^53; 1.0 and 1e3 are whole. */
bool json_u64(const struct json *value, uint64_t *ret);
bool json_i64(const struct json *value, int64_t *ret);
bool json_double(const struct json *value, double *ret); /* false: not a number, or one too large */
bool json_is_exact(
    const struct json *value); /* a number that a double holds as it is (config/format/decimal.h) */

/* Writing: appends a quoted string; bytes that are not UTF-8 become U+FFFD, control characters are escaped.
 */
int json_write_string(struct buf *ret, const char *text, size_t len);
