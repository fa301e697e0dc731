/* Policy files: from the text to a plan. What is refused is refused with the file, and a place in it where
 * there is one; what compiles yields a plan that holds to the rules. */
#include <string.h>

#include "config/policy/policy.pb-c.h"
#include "config/policy/policy_file.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "jail/plan/plan.h"
#include "policy/policy.h"
#include "tests/fuzz/formats.h"
#include "tests/fuzz/fuzz.h"

#define ORIGIN "file.textproto"

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    return formats_mutate(&immure__policy__descriptor, false, data, size, max_size, seed);
}

static void require_plan(const struct policy *policy)
{
    static const struct policy_ceilings ceilings = {.default_timeout_ms = 1000, .max_timeout_ms = 2000};
    static char script[] = "/bin/true";
    static char *const argv[] = {script};
    const struct policy_program program = {.argv = argv, .n_argv = 1};
    const struct job job = {.id = 1};
    struct jail_plan *plan = NULL;
    struct err err = {0};
    int r = policy_build_plan(policy, &ceilings, &job, &program, &plan, &err);
    if (r < 0) {
        REQUIRE(!plan && err.kind != ERR_NONE && err.kind != ERR_INTERNAL && err.text[0] != '\0');
        return;
    }
    REQUIRE(jail_plan_check(plan, &err) == 0);
    jail_plan_free(plan);
}

void fuzz_one(const uint8_t *data, size_t size)
{
    struct policy_spec *spec = NULL;
    struct policy *policy = NULL;
    struct err err = {0};
    int r = policy_spec_decode_text(ORIGIN, (const char *)data, size, &spec, &err);
    if (r < 0) {
        REQUIRE(!spec);
        fuzz_require_file_refusal((struct expected_refusal){r, &err, data, size}, ORIGIN, true);
        return;
    }
    REQUIRE(r == 0 && !err_is_set(&err));
    r = policy_compile(spec, &policy, &err);
    if (r < 0) {
        REQUIRE(!policy);
        fuzz_require_file_refusal((struct expected_refusal){r, &err, data, size}, ORIGIN, true);
        return;
    }
    require_plan(policy);
    policy_free(policy);
}
