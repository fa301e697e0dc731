/* How long to wait before a process that died is started again. Pure. */
#pragma once

#include <stdint.h>

struct backoff {
    uint32_t quick_deaths; /* in a row, each within BACKOFF_LIFE_NS of its start */
};

#define BACKOFF_LIFE_NS (10ull * 1000000000ull)
#ifndef BACKOFF_FREE
#define BACKOFF_FREE 5u /* so many quick deaths cost nothing */
#endif
#define BACKOFF_MAX_NS (60ull * 1000000000ull) /* never longer */

/* Notes a death after `lived_ns` of life and returns the delay before the next start: none at first; from the
 * sixth quick death in a row 1 s, and twice as long each time. */
uint64_t backoff_after_death(struct backoff *backoff, uint64_t lived_ns);
