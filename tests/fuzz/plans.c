/* A mutator for encoded plans. */
#include "tests/fuzz/plans.h"

#include <string.h>

#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/plan/plan.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/mutate.h"

static void swap_steps(struct jail_plan *plan, uint64_t *series)
{
    struct jail_step *a = &plan->steps[mutate_next(series) % plan->n_steps];
    struct jail_step *b = &plan->steps[mutate_next(series) % plan->n_steps];
    struct jail_step kept = *a;
    *a = *b;
    *b = kept;
}

static void remove_step(struct jail_plan *plan, uint64_t *series)
{
    uint32_t at = mutate_next(series) % plan->n_steps;
    plan->n_steps--;
    memmove(&plan->steps[at], &plan->steps[at + 1], (plan->n_steps - at) * sizeof plan->steps[0]);
}

static void repeat_step(struct jail_plan *plan, uint64_t *series)
{
    struct jail_step repeated = plan->steps[mutate_next(series) % plan->n_steps];
    *jail_plan_add(plan, repeated.kind) = repeated;
    swap_steps(plan, series);
}

static void change_kind(struct jail_plan *plan, uint64_t *series)
{
    plan->steps[mutate_next(series) % plan->n_steps].kind =
        (enum jail_step_kind)(mutate_next(series) % (JAIL_STEP_COUNT + 1));
}

static void change_numbers(struct jail_plan *plan, uint64_t *series)
{
    struct jail_step *step = &plan->steps[mutate_next(series) % plan->n_steps];
    LLVMFuzzerMutate((uint8_t *)step, sizeof *step, sizeof *step);
}

static void change_arena(struct jail_plan *plan, uint64_t *series)
{
    if (plan->arena_size > 0) {
        uint32_t at = mutate_next(series) % plan->arena_size, rest = plan->arena_size - at;
        LLVMFuzzerMutate(plan->arena + at, rest, rest);
    }
}

static void change_whole(struct jail_plan *plan, uint64_t *series)
{
    plan->namespaces ^= 1ull << (mutate_next(series) % 64);
    plan->limits.pids = mutate_next(series);
    plan->limits.timeout_ms = (uint64_t)mutate_next(series) << mutate_next(series) % 33;
}

size_t plan_mutate(uint8_t *data, size_t size, size_t max_size, uint64_t *series)
{
    static void (*const changes[])(struct jail_plan * plan, uint64_t * series) = {
        swap_steps, remove_step, repeat_step, change_kind, change_numbers, change_arena, change_whole};
    CLEANUP(buf_free) struct buf encoded = BUF_INIT;
    struct jail_plan *plan = NULL;
    if (mutate_next(series) % 8 == 0 || jail_plan_decode(data, size, &plan) < 0) {
        return LLVMFuzzerMutate(data, size, max_size);
    }
    for (uint32_t n = 1 + mutate_next(series) % 3; n > 0 && plan->n_steps > 0; n--) {
        changes[mutate_next(series) % ARRAY_SIZE(changes)](plan, series);
    }
    if (jail_plan_encode(plan, &encoded) == 0 && encoded.len <= max_size) {
        memcpy(data, encoded.data, encoded.len);
        size = encoded.len;
    }
    jail_plan_free(plan);
    return size;
}
