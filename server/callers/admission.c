/* Who may start a job now. Runs in the front, in the one place that every door's jobs pass. What the server
 * as a whole has room for is the warden's to say, which also counts the jobs of other fronts.
 *
 * A rate is kept as one moment per key, the earliest at which the next job fits (a generic cell rate): a key
 * that was quiet for a minute may start a whole minute's jobs at once. Another front begins anew.
 *
 * When a slot will be free nobody knows: callers are told the median of how long the last jobs took, and not
 * when those that run have to end, which is far too late where jobs are short and their timeouts are not.
 *
 * One key alone never has the last slot where there is another key: whoever comes then finds it. */
#include "server/callers/admission.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "config/server/config.h"
#include "jail/base/clock.h"
#include "jail/base/err.h"
#include "server/callers/auth.h"

#define MINUTE_NS (60 * NS_PER_S)

/* How many of the last jobs, and what is said as long as there were none. */
#define TIMES_MAX        31
#define TIME_MS_AT_FIRST 1000

struct admission {
    const struct server_config *config;
    uint64_t times_ms[TIMES_MAX]; /* of the last jobs; the oldest is overwritten */
    size_t n_times;               /* ever */
    size_t n_accounts;
    uint64_t *next_ns; /* of each account: when a bucket that began empty would be full again */
};

struct admission *admission_new(const struct server_config *config)
{
    struct admission *admission = calloc(1, sizeof *admission);
    if (!admission) {
        return NULL;
    }
    admission->config = config;
    if (admission_set_accounts(admission) < 0) {
        admission_free(admission);
        return NULL;
    }
    return admission;
}

int admission_set_accounts(struct admission *admission)
{
    size_t n_accounts = admission->config->n_accounts;
    uint64_t *next_ns = reallocarray(admission->next_ns, n_accounts, sizeof *next_ns);
    if (!next_ns) {
        return -ENOMEM;
    }
    memset(next_ns + admission->n_accounts, 0, (n_accounts - admission->n_accounts) * sizeof *next_ns);
    admission->next_ns = next_ns;
    admission->n_accounts = n_accounts;
    return 0;
}

void admission_free(struct admission *admission)
{
    if (admission) {
        free(admission->next_ns);
    }
    free(admission);
}

uint32_t admission_share(const struct server_config *config, uint32_t most)
{
    return config->n_keys > 1 && most > 1 ? most - 1 : most;
}

uint32_t admission_jobs_of(const struct server_config *config, const struct key_config *key)
{
    return key->max_concurrent_jobs > 0 ? key->max_concurrent_jobs
                                        : admission_share(config, config->max_concurrent_jobs);
}

void admission_note_time(struct admission *admission, uint64_t time_ms)
{
    admission->times_ms[admission->n_times++ % TIMES_MAX] = time_ms;
}

static int by_size(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

uint64_t admission_retry_after_ms(const struct admission *admission, uint64_t most_ms)
{
    uint64_t sorted[TIMES_MAX];
    size_t n = admission->n_times < TIMES_MAX ? admission->n_times : TIMES_MAX;
    memcpy(sorted, admission->times_ms, sizeof sorted);
    qsort(sorted, n, sizeof sorted[0], by_size);
    uint64_t median_ms = n > 0 ? sorted[n / 2] : TIME_MS_AT_FIRST;
    return most_ms > 0 && most_ms < median_ms ? most_ms : median_ms;
}

static int refuse(const struct admission_load *load, uint64_t now_ns, uint64_t *ret_retry_after_ms,
                  const char *what, const char *name, unsigned most, const char *why, struct err *reterr)
{
    uint64_t end_ns = load->earliest_end_ns;
    *ret_retry_after_ms = end_ns != UINT64_MAX && end_ns > now_ns ? (end_ns - now_ns) / NS_PER_MS : 0;
    return err_set(reterr, ERR_RATE, EAGAIN, NULL, "%s '%.100s' may have %u jobs at once%s", what, name, most,
                   why);
}

static int check_rate(const struct admission *admission, const struct key_config *key, uint64_t now_ns,
                      uint64_t *ret_retry_after_ms, struct err *reterr)
{
    uint64_t next_ns = admission->next_ns[key->account];
    uint64_t interval_ns = key->max_jobs_per_minute ? MINUTE_NS / key->max_jobs_per_minute : 0;
    if (interval_ns == 0 || next_ns + interval_ns <= now_ns + MINUTE_NS) {
        return 0;
    }
    *ret_retry_after_ms = (next_ns + interval_ns - now_ns - MINUTE_NS) / NS_PER_MS + 1;
    return err_set(reterr, ERR_RATE, EAGAIN, NULL, "key '%.100s' may start %u jobs in a minute", key->name,
                   key->max_jobs_per_minute);
}

int admission_check_load(const struct server_config *config, const struct caller *caller,
                         const struct admission_load *load, uint64_t now_ns, uint64_t *ret_retry_after_ms,
                         struct err *reterr)
{
    const struct key_config *key = caller->key;
    /* Without other keys the slots' end is the warden's to tell. */
    bool limited = key && (key->max_concurrent_jobs > 0 || config->n_keys > 1);
    if (limited && load->of_key >= admission_jobs_of(config, key)) {
        return refuse(load, now_ns, ret_retry_after_ms, "key", key->name, admission_jobs_of(config, key),
                      key->max_concurrent_jobs > 0 ? "" : "; the last slot is kept for other keys", reterr);
    }
    const struct team_config *team = auth_team(config, caller);
    if (team && team->max_concurrent_jobs > 0 && load->of_team >= team->max_concurrent_jobs) {
        return refuse(load, now_ns, ret_retry_after_ms, "team", team->name, team->max_concurrent_jobs, "",
                      reterr);
    }
    return 0;
}

int admission_check(const struct admission *admission, const struct caller *caller, uint64_t now_ns,
                    uint64_t *ret_retry_after_ms, struct err *reterr)
{
    const struct key_config *key = caller->key;
    *ret_retry_after_ms = 0;
    if (!key) {
        return 0;
    }
    if (!auth_team_may(admission->config, caller)) {
        return err_set(reterr, ERR_DENIED, EPERM, NULL, "code execution is not enabled for team %.100s",
                       key->team);
    }
    return check_rate(admission, key, now_ns, ret_retry_after_ms, reterr);
}

void admission_take(struct admission *admission, const struct caller *caller, uint64_t now_ns)
{
    const struct key_config *key = caller->key;
    if (key && key->max_jobs_per_minute > 0) {
        uint64_t *next_ns = &admission->next_ns[key->account];
        *next_ns = (*next_ns > now_ns ? *next_ns : now_ns) + MINUTE_NS / key->max_jobs_per_minute;
    }
}
