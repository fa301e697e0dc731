/* struct admission: may this key start a job now? Its team, its rate, its and its team's jobs at once. */
#pragma once

#include <stdint.h>

struct admission;
struct caller;
struct err;
struct key_config;
struct server_config;

/* `config` outlives it. NULL: out of memory. */
struct admission *admission_new(const struct server_config *config);
/* The configuration has other keys now. -ENOMEM: nothing has changed. */
int admission_set_accounts(struct admission *admission);
void admission_free(struct admission *admission); /* takes NULL */

/* What the jobs that run tell of a caller. */
struct admission_load {
    uint32_t of_key, of_team;
    uint64_t earliest_end_ns; /* of those; UINT64_MAX: there are none */
};

/* ERR_DENIED: its team may not. ERR_RATE: later, `*ret_retry_after_ms` says when at the earliest. Takes
 * nothing yet. */
int admission_check(const struct admission *admission, const struct caller *caller, uint64_t now_ns,
                    uint64_t *ret_retry_after_ms, struct err *reterr);
/* The same by the jobs that run. `*ret_retry_after_ms` is when the first of them has to end; 0: unknown. */
int admission_check_load(const struct server_config *config, const struct caller *caller,
                         const struct admission_load *load, uint64_t now_ns, uint64_t *ret_retry_after_ms,
                         struct err *reterr);
/* How many of what the server has `most` of (slots, kernels) one key may have: all; or, where the
 * configuration has another key, all but one. At least 1. */
uint32_t admission_share(const struct server_config *config, uint32_t most);
/* Jobs of a key at once: its own `max_concurrent_jobs`, or, where that is 0, its share of the slots. */
uint32_t admission_jobs_of(const struct server_config *config, const struct key_config *key);
/* A job has ended that took so long, and when to ask again for what jobs are in the way of, at the latest
 * after `most_ms` (0: nobody knows). */
void admission_note_time(struct admission *admission, uint64_t time_ms);
uint64_t admission_retry_after_ms(const struct admission *admission, uint64_t most_ms);
/* The job is on its way: it counts. */
void admission_take(struct admission *admission, const struct caller *caller, uint64_t now_ns);
