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

static struct jail_plan *plan_in(const struct policy *policy, const char *prelude,
                                 const struct policy_image *image, bool standby)
{
    struct prelude_config file = {.path = (char *)(uintptr_t)prelude, .data = "x", .size = 1};
    static char name[] = "text", wait[] = "", interpreter[] = "/usr/bin/env", kernel[] = "";
    struct runtime_config runtime = {.name = name,
                                     .interpreter = interpreter,
                                     .extension = name,
                                     .kernel = kernel,
                                     .standby = wait,
                                     .preludes = &file,
                                     .n_preludes = prelude ? 1 : 0};
    const struct policy_program program = {
        .runtime = &runtime, .image = image, .standby = standby, .bridge = standby};
    const struct policy_ceilings ceilings = {0};
    const struct job job = {0};
    struct jail_plan *plan = NULL;
    struct err err = {0};
    if (policy_build_plan(policy, &ceilings, &job, &program, &plan, &err) < 0) {
        fail_msg("%s: %s", err.item, err.text);
    }
    return plan;
}

static struct jail_plan *plan_of(const struct policy *policy, const char *prelude)
{
    return plan_in(policy, prelude, NULL, false);
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
        int r = jail_plan_for_template(plan, 4096, 0, argv, false, 1000, false, &template, &err);
        if (rows[i].why) {
            snprintf(expected, sizeof expected, "this policy cannot run from a template: %s", rows[i].why);
        }
        assert_int_equal(r < 0, rows[i].why != NULL);
        assert_string_equal(err.text, expected);
        assert_int_equal(err.kind == ERR_HOST, rows[i].why != NULL);
    }
}

/* How many file systems of its own the template has where jobs have their scratch. */
static unsigned temporary_places(uint64_t temporary_bytes)
{
    CLEANUP(policy_freep) struct policy *policy = compile(POLICY(""));
    CLEANUP(plan_freep) struct jail_plan *plan = plan_of(policy, NULL);
    CLEANUP(plan_freep) struct jail_plan *template = NULL;
    CLEANUP(plan_freep) struct jail_plan *run = NULL;
    char *argv[] = {NULL};
    struct err err = {0};
    unsigned found = 0;
    assert_int_equal(
        jail_plan_for_template(plan, 4096, temporary_bytes, argv, false, 1000, false, &template, &err), 0);
    for (uint32_t i = 0; i < template->n_steps; i++) {
        const struct jail_step *step = &template->steps[i];
        if (step->kind == JAIL_STEP_TMPFS) {
            assert_string_equal(jail_step_path(template, step), "/tmp");
            assert_int_equal(step->tmpfs.size_bytes, temporary_bytes);
            found++;
        }
    }
    assert_int_equal(jail_plan_for_run(plan, &run, &err), 0);
    assert_true(jail_plan_has(run, JAIL_STEP_SCRATCH)); /* which covers it */
    assert_false(jail_plan_has(run, JAIL_STEP_TMPFS));
    return found;
}

static void test_a_place_to_write(void **state)
{
    (void)state;
    assert_int_equal(temporary_places(0), 0);
    assert_int_equal(temporary_places(1 << 20), 1);
}

static size_t count(const struct jail_plan *plan, enum jail_step_kind kind)
{
    size_t n = 0;
    for (uint32_t i = 0; i < plan->n_steps; i++) {
        n += plan->steps[i].kind == kind;
    }
    return n;
}

#define IN_IMAGE(mounts) POLICY(mounts "image: 'test'\n")

/* What a stranger's interpreter starts with is the job's own jail: every step that confines it is there, and
 * comes before the interpreter does. */
static void test_standby(void **state)
{
    (void)state;
    static const enum jail_step_kind kept[] = {
        JAIL_STEP_IDENTITY, JAIL_STEP_IMAGE,  JAIL_STEP_PIVOT,        JAIL_STEP_ROOT_READONLY,
        JAIL_STEP_RLIMIT,   JAIL_STEP_BRIDGE, JAIL_STEP_CAPABILITIES, JAIL_STEP_NO_NEW_PRIVS,
        JAIL_STEP_SECCOMP,  JAIL_STEP_PROC,   JAIL_STEP_PROGRAM,      JAIL_STEP_EXEC};
    const struct policy_image image = {.name = "test", .digest = ""};
    CLEANUP(policy_freep) struct policy *policy = compile(IN_IMAGE(""));
    CLEANUP(plan_freep) struct jail_plan *plan = plan_in(policy, NULL, &image, true);
    CLEANUP(plan_freep) struct jail_plan *standby = NULL;
    char interpreter[] = "/usr/bin/env", start[] = TEMPLATE_START, module[] = "json";
    char *argv[] = {interpreter, start, module, NULL};
    struct err err = {0};
    assert_int_equal(jail_plan_for_standby(plan, 4096, argv, &standby, &err), 0);
    assert_memory_equal(&standby->limits, &plan->limits, sizeof plan->limits);
    assert_int_equal(standby->namespaces, plan->namespaces);
    assert_int_equal(standby->uid, plan->uid);
    for (size_t i = 0; i < ARRAY_SIZE(kept); i++) {
        assert_int_equal(count(standby, kept[i]), count(plan, kept[i]));
    }
    assert_int_equal(count(standby, JAIL_STEP_SUBMOUNT), count(plan, JAIL_STEP_SUBMOUNT) + 1);
    assert_int_equal(count(standby, JAIL_STEP_FILE), count(plan, JAIL_STEP_FILE) + 1);
    const struct jail_step *exec = &standby->steps[standby->n_steps - 1];
    assert_string_equal(jail_plan_string(standby, exec->exec.path), "/usr/bin/env");
    assert_int_equal(exec->exec.argc, 3);
    assert_int_equal(exec->exec.envc, plan->steps[plan->n_steps - 1].exec.envc + 1);
}

static void test_what_no_standby_is_for(void **state)
{
    (void)state;
    static const struct {
        const char *text, *prelude, *why;
    } rows[] = {
        {IN_IMAGE("mount { destination: '/usr' bind { source: '/usr' } }"), NULL,
         "it mounts something over immure's files"},
        {IN_IMAGE("mount { destination: '/usr/local' tmpfs {} }"), NULL,
         "it mounts something over immure's files"},
        {IN_IMAGE(""), "/immure/prelude", "it puts something beside the script"},
        {"name: 'test'\nimage: 'test'\n" OPEN PROC "mount { destination: '/workspace' tmpfs {} }\n", NULL,
         "it has no scratch"},
    };
    const struct policy_image image = {.name = "test", .digest = ""};
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        CLEANUP(policy_freep) struct policy *policy = compile(rows[i].text);
        CLEANUP(plan_freep) struct jail_plan *plan = plan_in(policy, rows[i].prelude, &image, true);
        struct jail_plan *standby = NULL;
        char *argv[] = {NULL};
        struct err err = {0};
        assert_true(jail_plan_for_standby(plan, 4096, argv, &standby, &err) < 0);
        assert_non_null(strstr(err.text, rows[i].why));
        assert_null(standby);
        assert_int_equal(err.kind, ERR_HOST);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_fit), cmocka_unit_test(test_a_place_to_write),
                                       cmocka_unit_test(test_standby),
                                       cmocka_unit_test(test_what_no_standby_is_for)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
