/* jail/plan/template_plan.c: policies whose jobs can be forked from a template, and those whose jobs would
 * then miss something. Needs no privileges. */
#include "tests/unit/policy/helper.h"

#include "config/server/config.h"
#include "jail/plan/template_plan.h"

#define PROC "mount { destination: '/proc' proc {} }\n"
#define SCRATCH                                                                                              \
    "mount { destination: '/workspace' scratch { directory: WORK } }\n"                                      \
    "mount { destination: '/tmp' scratch { directory: TMP } }\n"
#define POLICY(mounts) "name: 'test'\n" OPEN PROC SCRATCH mounts

static struct jail_plan *plan_of(const struct policy *policy, const char *prelude)
{
    struct prelude_config file = {.path = (char *)(uintptr_t)prelude, .data = "x", .size = 1};
    static char name[] = "text", interpreter[] = "/usr/bin/env", kernel[] = "";
    struct runtime_config runtime = {.name = name,
                                     .interpreter = interpreter,
                                     .extension = name,
                                     .kernel = kernel,
                                     .preludes = &file,
                                     .n_preludes = prelude ? 1 : 0};
    const struct policy_program program = {.runtime = &runtime};
    const struct policy_ceilings ceilings = {0};
    const struct job job = {0};
    struct jail_plan *plan = NULL;
    struct err err = {0};
    if (policy_build_plan(policy, &ceilings, &job, &program, &plan, &err) < 0) {
        fail_msg("%s: %s", err.item, err.text);
    }
    return plan;
}

#define HIDDEN(path) path " lies in a directory that each job has of its own"

static void test_fit(void **state)
{
    (void)state;
    static const struct {
        const char *text, *prelude;
        const char *why; /* NULL: it fits */
    } rows[] = {
        {POLICY(""), NULL, NULL},
        {POLICY(""), "/usr/lib/text/prelude", NULL},
        {POLICY("mount { destination: '/opt' tmpfs {} }"), NULL, NULL},
        {POLICY("mount { destination: '/workspaces' bind { source: '/srv' } }"), NULL, NULL},
        {POLICY("mount { destination: '/workspace/own' tmpfs {} }"), NULL, NULL},
        {POLICY("mount { destination: '/workspace/given' bind { source: '/srv' } }"), NULL,
         HIDDEN("/workspace/given")},
        {POLICY("mount { destination: '/tmp/link' symlink { target: '/srv' } }"), NULL, HIDDEN("/tmp/link")},
        {POLICY("mount { destination: '/workspace/a/own' tmpfs {} }"), NULL, HIDDEN("/workspace/a")},
        {POLICY("mount { destination: '/opt' tmpfs {} read_only: false }"
                "mount { destination: '/opt/text' file { content: 'x' } }"),
         NULL, HIDDEN("/opt/text")},
        {POLICY(""), "/immure/prelude", HIDDEN("/immure/prelude")},
        {"name: 'test'\n" OPEN PROC WORKSPACE, NULL, "its scratch has no place of its own, as TMP would be"},
        {"name: 'test'\n" OPEN SCRATCH, NULL, "it has no procfs"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        CLEANUP(policy_freep) struct policy *policy = compile(rows[i].text);
        CLEANUP(plan_freep) struct jail_plan *plan = plan_of(policy, rows[i].prelude);
        CLEANUP(plan_freep) struct jail_plan *template = NULL;
        char *argv[] = {NULL}, expected[256] = "";
        struct err err = {0};
        int r = jail_plan_for_template(plan, 4096, argv, false, 1000, false, &template, &err);
        if (rows[i].why) {
            snprintf(expected, sizeof expected, "this policy cannot run from a template: %s", rows[i].why);
        }
        assert_int_equal(r < 0, rows[i].why != NULL);
        assert_string_equal(err.text, expected);
        assert_int_equal(err.kind == ERR_HOST, rows[i].why != NULL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_fit)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
