/* struct terminations: POST /run-code/{execution_id}/terminate that came before its run did, and runs that
 * have ended. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct err;
struct key_config;

/* How long, and how many of one key: the oldest of them makes room. */
#define TERMINATIONS_KEPT_NS UINT64_C(30000000000)
#define TERMINATIONS_PER_KEY 64u

struct termination {
    struct termination *next; /* an older one */
    const struct key_config *key;
    char *execution_id;
    char *reason; /* NULL: none */
    bool is_late; /* that run has ended: what comes for it means nothing */
    uint64_t at_ns;
};

/* All zero: none. */
struct terminations {
    struct termination *newest;
};

/* In the place of what was known of that run. `reason` may be NULL. */
int terminations_note(struct terminations *all, const struct key_config *key, const char *execution_id,
                      const char *reason, bool is_late, uint64_t now_ns, struct err *reterr);
/* NULL: nothing is known. Otherwise good until the next call of terminations_note(). */
const struct termination *terminations_find(const struct terminations *all, const struct key_config *key,
                                            const char *execution_id, uint64_t now_ns);
void terminations_clear(struct terminations *all);
