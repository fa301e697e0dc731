/* struct policy_differences: what two policies do not have in common, whatever words they use. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct buf;
struct err;
struct policy;
struct policy_answer;

enum policy_section {
    POLICY_SECTION_MOUNTS,
    POLICY_SECTION_ENVIRONMENT,
    POLICY_SECTION_LIMITS,
    POLICY_SECTION_OTHER,
    POLICY_SECTION_CALLS,
    POLICY_SECTION_COUNT
};

/* Owned texts. */
struct policy_difference {
    enum policy_section section;
    char *name;              /* a destination, a variable, a field, a system call */
    char *arguments;         /* of a call: with which the answers differ; NULL: with any */
    char *a, *b;             /* what each policy says; NULL: nothing. Of a call: its answer */
    bool a_allows, b_allows; /* of a call */
};

struct policy_differences {
    struct policy_difference *rows; /* by section */
    size_t n;
};

/* Everything but names, descriptions and reasons. System calls are compared by what the compiled filters
 * answer (policy/compare/values.h says to what). ERR_CONFIG: a call has more to try than can be tried. */
int policy_compare(const struct policy *a, const struct policy *b, struct policy_differences *ret,
                   struct err *reterr);
void policy_differences_clear(struct policy_differences *differences);

/* Appends a text as part of a line: in quotes, with escapes, where it is empty, or has control characters or
 * one of `but`, so that it cannot be taken for something else. */
void policy_put_text(const char *text, const char *but, struct buf *ret);

/* Whether the program makes the call. */
bool policy_answer_allows(struct policy_answer answer);
