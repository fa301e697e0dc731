/* struct suggestion: the nearest of the names that are offered to it, for "did you mean". */
#pragma once

#include <stddef.h>

struct suggestion {
    const char *word; /* need not end with a NUL */
    size_t len;
    const char *best; /* NULL: nothing offered so far is near enough to be worth suggesting */
    unsigned distance;
};

#define SUGGESTION_FOR(text, length) ((struct suggestion){.word = (text), .len = (length)})

void suggestion_offer(struct suggestion *suggestion, const char *name);

/* "; did you mean PREFIXname?", or "" where nothing is near. */
#define SUGGESTION_TEXT_MAX 160
const char *suggestion_text(const struct suggestion *suggestion, const char *prefix,
                            char ret[SUGGESTION_TEXT_MAX]);
