/* What the parts of a learned policy are written by. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct buf;
struct err;
struct observed;
struct policy;

/* One section of the policy, and lines for its end: what is not given, and why. */
struct learn_section {
    struct buf *fields, *notes;
    size_t n_fields; /* lines that are no comments */
    bool locks;      /* some were taken that the parent does not count */
};

/* Appends text for a comment: control characters as in a string of a policy. */
void learn_put_text(struct buf *ret, const char *text, size_t length);
/* Appends the text as a string of a policy, with its quotes. */
void learn_put_quoted(struct buf *ret, const char *text);
/* Mounts, for what `parent` does not show. */
void places_write(const struct observed *observed, const struct policy *parent, struct learn_section *ret);
/* Rules, for calls that `parent` does not decide about. `answers`: how calls were answered meanwhile. */
void calls_write(const struct observed *observed, const struct policy *parent, const struct policy *answers,
                 struct learn_section *ret);
/* The policy whose errors a watched program was answered with. */
int trace_answers(struct policy **ret, struct err *reterr);
