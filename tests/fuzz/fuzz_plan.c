/* Encoded plans, as they go to a template: what decodes is encoded as it was, can be printed and checked
 * whatever it holds, and what passes the check can be turned into a template's plan and a job's, which pass
 * it too. */
#include <string.h>

#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "jail/plan/plan.h"
#include "jail/plan/template_plan.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/plans.h"

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    uint64_t series = seed;
    return plan_mutate(data, size, max_size, &series);
}

static void require_round_trip(const struct jail_plan *plan, const uint8_t *data, size_t size)
{
    CLEANUP(buf_free) struct buf encoded = BUF_INIT;
    struct jail_plan *again = NULL;
    size_t steps_size = plan->n_steps * sizeof plan->steps[0];
    REQUIRE(jail_plan_encode(plan, &encoded) == 0 && encoded.len == size);
    /* All but the padding of what stands before the steps. */
    size_t head = size - steps_size - plan->arena_size;
    REQUIRE(memcmp(encoded.data + head, data + head, size - head) == 0);
    REQUIRE(jail_plan_decode(encoded.data, encoded.len, &again) == 0);
    REQUIRE(again->n_steps == plan->n_steps && again->arena_size == plan->arena_size);
    REQUIRE(again->uid == plan->uid && again->gid == plan->gid && again->namespaces == plan->namespaces);
    REQUIRE(again->limits.timeout_ms == plan->limits.timeout_ms);
    jail_plan_free(again);
}

static void require_derived(const struct jail_plan *plan)
{
    static char argument[] = "argument";
    char *const argv[] = {argument, NULL};
    struct jail_plan *derived[2] = {NULL, NULL};
    struct err errs[2] = {{0}, {0}};
    int r[] = {jail_plan_for_template(plan, 4096, 0, argv, false, 65534, false, &derived[0], &errs[0]),
               jail_plan_for_run(plan, &derived[1], &errs[1])};
    for (size_t i = 0; i < ARRAY_SIZE(r); i++) {
        REQUIRE((r[i] < 0) == (errs[i].kind != ERR_NONE));
        REQUIRE(r[i] < 0 || jail_plan_check(derived[i], NULL) == 0);
        jail_plan_free(derived[i]);
    }
}

void fuzz_one(const uint8_t *data, size_t size)
{
    CLEANUP(buf_free) struct buf printed = BUF_INIT;
    struct jail_plan *plan = NULL;
    struct err err = {0};
    if (jail_plan_decode(data, size, &plan) < 0) {
        REQUIRE(!plan);
        return;
    }
    require_round_trip(plan, data, size);
    jail_plan_print(plan, &printed);
    for (uint32_t i = 0; i <= plan->n_steps; i++) {
        char text[64] = "";
        jail_plan_describe_step(plan, i, text, sizeof text);
        REQUIRE(memchr(text, '\0', sizeof text));
    }
    if (jail_plan_check(plan, &err) == 0) {
        require_derived(plan);
    } else {
        REQUIRE(err.kind == ERR_SETUP && err.text[0] != '\0');
    }
    jail_plan_free(plan);
}
