/* A strict look over a JSON text: before anything is built from it (struct jsonscan, for json.c), or where
 * nothing is (json_split(), for all who have json.h). */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define JSON_DEPTH_MAX  64
#define JSON_VALUES_MAX (1u << 16) /* in one document: a small text cannot ask for much memory and time */

enum json_type { JSON_ABSENT, JSON_NULL, JSON_BOOL, JSON_NUMBER, JSON_STRING, JSON_ARRAY, JSON_OBJECT };

struct jsonscan {
    uint32_t *offsets; /* of each value's first byte, in the order they begin */
    size_t n_offsets;
    const char *why; /* of a refusal; NULL: out of memory */
    size_t at;       /* the byte it is about */
};

/* 0, -EINVAL with `why` and `at`, or -ENOMEM. */
int jsonscan_run(const char *text, size_t size, struct jsonscan *ret);
void jsonscan_free(struct jsonscan *scan);

/* The length of the number that begins at `text`. */
size_t jsonscan_number_length(const char *text, size_t size);

/* A value as it stands in a text that is passed on, not read: `size` bytes at `text`. */
struct json_slice {
    const char *text;
    size_t size;
    enum json_type type; /* JSON_ABSENT: there is none */
};

/* Levels of such a text. Whatever a prelude sends has fewer, frame included: a value of Python's or Node's
 * has 512 at most (jail/runtime), the evaluator's 200 take up to three each and one for what is in the last,
 * and an event has three around that. It bounds the scan's recursion; nothing builds these texts. */
#define JSON_PASSED_DEPTH_MAX 640

/* Finds members of the object that `text` is, without building anything: `ret[i]` is the value of `names[i]`,
 * which are ASCII and compared with keys as these read, escapes resolved. As strict as json_parse(), but that
 * strings may hold NULs (as \u0000), that numbers may have any length and objects deeper down the same key
 * twice, and that there may be more levels. -EINVAL with `*ret_why`. */
int json_split(const char *text, size_t size, const char *const *names, size_t n, struct json_slice *ret,
               const char **ret_why);
