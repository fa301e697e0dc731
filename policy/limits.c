/* A job's wishes held against its policy and the server's ceilings: what applies to it. Pure. A wish can only
 * ever lower; one that is above what the policy gives is an error rather than a surprise, but for the
 * timeout, which is clamped. */
#include "policy/policy.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "policy/compiled.h"
#include "policy/env.h"

#define MEMORY_BYTES_LEAST  (1ull << 20)
#define SCRATCH_BYTES_LEAST 4096ull
#define YEAR_MS             (366ull * 24 * 3600 * 1000)

/* The smaller of two limits, where 0 is none. */
static uint64_t tighter(uint64_t a, uint64_t b)
{
    return a == 0 || (b != 0 && b < a) ? b : a;
}

struct limit_row {
    const char *field;
    uint64_t wish, least;
    uint64_t policys, keys; /* the most that they give; 0: no limit, as long as the job asks for none */
    uint64_t *ret;
};

static int apply_wish(const struct limit_row *row, struct err *reterr)
{
    uint64_t most = tighter(row->policys, row->keys);
    if (row->wish == 0) {
        *row->ret = most;
        return 0;
    }
    if (row->wish < row->least || (most != 0 && row->wish > most)) {
        return most ? err_set(reterr, ERR_INVALID, ERANGE, row->field,
                              "must be from %" PRIu64 " to %" PRIu64 ", the %s limit", row->least, most,
                              most == row->policys ? "policy's" : "key's")
                    : err_set(reterr, ERR_INVALID, ERANGE, row->field, "must be at least %" PRIu64,
                              row->least);
    }
    *row->ret = row->wish;
    return 0;
}

static uint64_t timeout_of(const struct policy_limits *limits, const struct policy_ceilings *ceilings,
                           uint64_t wish)
{
    uint64_t timeout_ms = wish ? wish : ceilings->default_timeout_ms;
    uint64_t most = tighter(limits->timeout_ms, ceilings->max_timeout_ms);
    timeout_ms = tighter(timeout_ms, most);
    return timeout_ms > YEAR_MS ? YEAR_MS : timeout_ms;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int check_env_twice(const struct job *job, struct err *reterr)
{
    CLEANUP(freep) const char **names = calloc(job->n_env + 1, sizeof *names);
    if (!names) {
        return err_errno(reterr, ENOMEM, "comparing variables");
    }
    for (size_t i = 0; i < job->n_env; i++) {
        names[i] = job->env[i].name;
    }
    qsort(names, job->n_env, sizeof *names, by_name);
    for (size_t i = 1; i < job->n_env; i++) {
        if (strcmp(names[i - 1], names[i]) == 0) {
            return err_set(reterr, ERR_INVALID, EINVAL, "env", "the variable %.64s is given twice", names[i]);
        }
    }
    return 0;
}

static int check_env(const struct policy_spec *spec, const struct job *job, struct err *reterr)
{
    for (size_t i = 0; i < job->n_env; i++) {
        const char *name = job->env[i].name;
        const char *problem = env_name_problem(name);
        if (problem) {
            return err_set(reterr, ERR_INVALID, EINVAL, "env", "%s", problem);
        }
        if (!env_allowed(spec, name)) {
            const char *reason = env_loader_reason(name);
            return err_set(reterr, ERR_INVALID, EPERM, "env",
                           "policy %s does not allow the variable %.64s%s%s%s", spec->name, name,
                           reason ? " (" : "", reason ? reason : "", reason ? ")" : "");
        }
    }
    return check_env_twice(job, reterr);
}

int policy_limits_for(const struct policy *policy, const struct policy_ceilings *ceilings,
                      const struct job *job, struct job_limits *ret, struct err *reterr)
{
    const struct policy_limits *limits = &policy->spec->limits;
    const struct job_limits *wish = &job->limits;
    struct job_limits applied = {.timeout_ms = timeout_of(limits, ceilings, wish->timeout_ms)};
#define ROW(limit, least_of_it, policys_of_it)                                                               \
    {                                                                                                        \
        .field = "limits." #limit, .wish = wish->limit, .least = (least_of_it), .policys = (policys_of_it),  \
        .keys = ceilings->key.limit, .ret = &applied.limit                                                   \
    }
    const struct limit_row rows[] = {
        ROW(memory_bytes, MEMORY_BYTES_LEAST, limits->memory_bytes),
        ROW(pids, 1, limits->pids),
        ROW(cpu_percent, 1, limits->cpu_percent),
        ROW(cpu_ms, 1, limits->cpu_ms),
        ROW(scratch_bytes, SCRATCH_BYTES_LEAST, limits->scratch_bytes),
        ROW(output_bytes, 1, tighter(limits->output_bytes, ceilings->max_output_bytes)),
    };
#undef ROW
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        int r = apply_wish(&rows[i], reterr);
        if (r < 0) {
            return r;
        }
    }
    applied.cpu_ms = applied.cpu_ms > YEAR_MS ? YEAR_MS : applied.cpu_ms;
    int r = check_env(policy->spec, job, reterr);
    if (r < 0) {
        return r;
    }
    *ret = applied;
    return 0;
}
