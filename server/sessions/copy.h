/* Whole workspaces: one becomes the copy of another, or is compared with it. Runs in the process for files of
 * sessions, on what unread programs have made. */
#pragma once

#include <stdint.h>

struct err;
struct session_rows;

/* Longest that one of them may take. */
#define COPY_TIMEOUT_NS (60 * NS_PER_S)

struct copy_order {
    uint32_t uid, gid;       /* whose the copy is to be */
    uint64_t bytes, entries; /* that it may have */
};

struct copy_counts {
    uint64_t files;    /* regular ones */
    uint64_t left_out; /* neither files, directories nor symbolic links */
};

/* Both descriptors are as of scratch_open(). Below the working directory of `to`, which is empty and nobody
 * else's, lies afterwards what lay below that of `from`. Holes stay holes, names of one file stay that, modes
 * and dates are kept, but for set-user-ID bits; attributes are not. On failure something may lie there.
 * ERR_TOO_LARGE: over a limit, or too deep; ERR_BUSY: it took too long. */
int workspace_copy(int from, int to, const struct copy_order *order, struct copy_counts *ret,
                   struct err *reterr);

/* What is other in `to` than in `from`, by path and by every byte, of regular files; looks at `max_entries`
 * names of each. */
int workspace_compare(int from, int to, uint64_t max_entries, struct session_rows *ret, struct err *reterr);
