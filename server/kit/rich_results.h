/* struct rich_results: what a program shows beside what it prints, as mime bundles. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "jail/base/buf.h"

struct json_slice;

/* Results of one job, bytes of one, and of all: what is beyond is left out. */
#define RICH_RESULTS_MAX       100u
#define RICH_RESULT_BYTES_MAX  (4u << 20)
#define RICH_RESULTS_BYTES_MAX (8u << 20)

struct rich_results {
    struct buf json;                  /* objects of the reply's `results`, with a comma between two */
    size_t n, ends[RICH_RESULTS_MAX]; /* how many, and where each ends */
    size_t bytes;                     /* that the program has sent for them */
    bool cut;                         /* something was left out */
};

/* The text of one of them. */
const char *rich_results_get(const struct rich_results *results, size_t i, size_t *ret_size);

/* Looks at a frame's `type` and `data`, and appends what they say. NULL: `*ret_at` is where in `json` the new
 * one begins, or its end where none was added. Else why the frame is none. */
const char *rich_results_add(struct rich_results *results, const struct json_slice *type,
                             const struct json_slice *data, size_t *ret_at);
