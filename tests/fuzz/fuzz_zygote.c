/* What the parent says to a template: what decodes holds a plan that passes the check, ends in RUN, and goes
 * back into the same bytes. */
#include <string.h>

#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/io.h"
#include "jail/plan/plan.h"
#include "jail/plan/zygote_message.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/mutate.h"
#include "tests/fuzz/plans.h"

#define HEADER_BYTES sizeof(struct zygote_header)

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    uint64_t series = seed;
    if (size < HEADER_BYTES || size > max_size || mutate_next(&series) % 16 == 0) {
        return LLVMFuzzerMutate(data, size, max_size);
    }
    return HEADER_BYTES +
           plan_mutate(data + HEADER_BYTES, size - HEADER_BYTES, max_size - HEADER_BYTES, &series);
}

void fuzz_one(const uint8_t *data, size_t size)
{
    CLEANUP(buf_free) struct buf encoded = BUF_INIT;
    struct zygote_header header;
    struct jail_plan *plan = NULL;
    if (zygote_decode_header(data, size, &header) == 0) {
        REQUIRE(header.kind == ZYGOTE_PARK || header.kind == ZYGOTE_RUN);
        REQUIRE(io_is_bool(&header.drop_groups) && io_is_bool(&header.filter_early));
        REQUIRE(io_is_bool(&header.has_workspace) && io_is_bool(&header.is_awaited));
    }
    if (zygote_decode_plan(data, size, &plan) < 0) {
        REQUIRE(!plan);
        return;
    }
    bool has_program = false;
    for (uint32_t i = 0; i < plan->n_steps; i++) {
        has_program |= plan->steps[i].kind == JAIL_STEP_PROGRAM;
    }
    REQUIRE(jail_plan_check(plan, NULL) == 0 && has_program);
    REQUIRE(plan->steps[plan->n_steps - 1].kind == JAIL_STEP_RUN);
    REQUIRE(jail_plan_encode(plan, &encoded) == 0 && encoded.len == size - HEADER_BYTES);
    jail_plan_free(plan);
}
