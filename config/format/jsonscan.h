/* struct jsonscan: a strict look over a JSON text before anything is built from it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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
