/* Whole plans and explanations of shipped and small policies against the texts in tests/golden/. Needs no
 * privilege.
 *
 * After a change that is meant, look at what it does to them:
 *     UPDATE_GOLDEN=1 build/tests/unit/policy/test_golden && git diff tests/golden
 *
 * How many instructions a filter has depends on libseccomp's version, so the number is not compared. */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "config/server/config.h"
#include "jail/base/io.h"
#include "tests/unit/policy/helper.h"

#define GOLDEN   "tests/golden/"
#define TEXT_MAX (1u << 20)

static char python[] = "/usr/bin/python3.11", no_site[] = "-s", extension[] = "py", runtime_name[] = "python";
static char *runtime_args[] = {no_site};
static const struct runtime_config runtime = {
    .name = runtime_name, .interpreter = python, .args = runtime_args, .n_args = 1, .extension = extension};

/* What a host might tell of its interpreters. */
static char library[] = "/usr/lib/python3.11", libraries[] = "/usr/lib/x86_64-linux-gnu";
static char loader[] = "/lib64/ld-linux-x86-64.so.2",
            loader_file[] = "/usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2";
static char node_binary[] = "/usr/bin/node", node_part[] = "/usr/share/nodejs/undici",
            bash_binary[] = "/usr/bin/bash";
static struct interpreter_need needs[][4] = {
    {{.path = libraries}, {.path = loader, .target = loader_file}, {.path = python}, {.path = library}},
    {{.path = libraries},
     {.path = loader, .target = loader_file},
     {.path = node_binary},
     {.path = node_part}},
    {{.path = libraries}, {.path = loader, .target = loader_file}, {.path = bash_binary}},
};
static const struct runtime_config found[] = {
    {.needs = needs[0], .n_needs = 4}, {.needs = needs[1], .n_needs = 4}, {.needs = needs[2], .n_needs = 3}};

static char first_argument[] = "--verbose", second_argument[] = "two words";
static char *job_args[] = {first_argument, second_argument};
static char tz[] = "TZ", tokyo[] = "Asia/Tokyo", data_name[] = "data/table.csv";
static struct job_env job_env[] = {{tz, tokyo}};
static struct job_file job_files[] = {{data_name, 120, 300}};

/* A job that asks for nothing, and one that asks for much. */
static const struct job plain_job = {.code_size = 120};
static const struct job wishing_job = {
    .code_size = 120,
    .files = job_files,
    .n_files = 1,
    .args = job_args,
    .n_args = 2,
    .env = job_env,
    .n_env = 1,
    .limits = {.memory_bytes = 64 << 20,
               .pids = 4,
               .cpu_percent = 50,
               .cpu_ms = 900,
               .scratch_bytes = 1 << 20,
               .output_bytes = 1000,
               .timeout_ms = 1500},
};

static char command_path[] = "/usr/bin/env";
static char *command[] = {command_path};

static const struct golden {
    const char *name, *policy;
    const struct job *job;
    bool command, no_cgroup;
} goldens[] = {
    {"python-plain", "python", &plain_job, false, false},
    {"python-wishes", "python", &wishing_job, false, false},
    {"python-no-cgroup", "python", &plain_job, false, true},
    {"python-command", "python", &plain_job, true, false},
    {"strict-plain", "strict", &plain_job, false, false},
    {"node-plain", "node", &plain_job, false, true},
    {"bash-plain", "bash", &plain_job, false, true},
    {"least", GOLDEN "least.textproto", &plain_job, true, false},
    {"kinds", GOLDEN "kinds.textproto", &plain_job, true, false},
    {"no-tmp", GOLDEN "no-tmp.textproto", &wishing_job, true, true},
};

/* "391 instructions" -> "N instructions". */
static void hide_count(struct buf *text)
{
    char *word = strstr(text->data, " instructions");
    char *number = word;
    while (number && number > text->data && isdigit((unsigned char)number[-1])) {
        number--;
    }
    if (word) {
        *number = 'N';
        memmove(number + 1, word, strlen(word) + 1);
        text->len = strlen(text->data);
    }
}

static void compare(const char *name, struct buf *text)
{
    hide_count(text);
    char path[128];
    snprintf(path, sizeof path, GOLDEN "%s.txt", name);
    if (getenv("UPDATE_GOLDEN")) {
        FILE *file = fopen(path, "we");
        assert_non_null(file);
        assert_int_equal(fwrite(text->data, 1, text->len, file), text->len);
        assert_int_equal(fclose(file), 0);
        return;
    }
    CLEANUP(buf_free) struct buf want = BUF_INIT;
    if (io_read_file_at(AT_FDCWD, path, TEXT_MAX, &want) < 0) {
        fail_msg("cannot read %s", path);
    }
    if (strcmp(text->data, want.data) != 0) {
        fail_msg("%s differs; now it is:\n%s", path, text->data);
    }
}

static struct policy *resolve(const char *name)
{
    struct policy *policy = NULL;
    struct err err = {0};
    if (policy_resolve(name, &policy, &err) < 0) {
        fail_msg("%s: %s: %s", name, err.item, err.text);
    }
    const char *shown = policy_spec(policy)->interpreter;
    policy_set_interpreter(policy, strcmp(shown, "python3") == 0 ? &found[0]
                                   : strcmp(shown, "node") == 0  ? &found[1]
                                                                 : &found[2]);
    return policy;
}

static void test_plans(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(goldens); i++) {
        const struct golden *golden = &goldens[i];
        CLEANUP(policy_freep) struct policy *policy = resolve(golden->policy);
        const struct policy_ceilings ceilings = {.default_timeout_ms = 30000,
                                                 .max_timeout_ms = 60000,
                                                 .max_output_bytes = 524288,
                                                 .cgroup = !golden->no_cgroup};
        const struct policy_program program = {.runtime = golden->command ? NULL : &runtime,
                                               .argv = golden->command ? command : NULL,
                                               .n_argv = golden->command ? 1 : 0};
        CLEANUP(plan_freep) struct jail_plan *plan = NULL;
        struct err err = {0};
        if (policy_build_plan(policy, &ceilings, golden->job, &program, &plan, &err) < 0 ||
            jail_plan_check(plan, &err) < 0) {
            fail_msg("%s: %s%s: %s", golden->name, err.item, err.step, err.text);
        }
        CLEANUP(buf_free) struct buf text = BUF_INIT;
        jail_plan_print(plan, &text);
        compare(golden->name, &text);
    }
}

#ifdef __x86_64__
/* Lists the calls of this architecture, so compared on one. */
static void test_explanations(void **state)
{
    (void)state;
    static const char kinds[] = GOLDEN "kinds.textproto";
    static const char *const names[] = {"python", "strict", "node", "isolate", "bash", kinds};
    static const char *const goldens_of[] = {"explain-python",  "explain-strict", "explain-node",
                                             "explain-isolate", "explain-bash",   "explain-kinds"};
    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        CLEANUP(policy_freep) struct policy *policy = resolve(names[i]);
        CLEANUP(buf_free) struct buf text = BUF_INIT;
        assert_int_equal(policy_explain(policy, &text, NULL), 0);
        compare(goldens_of[i], &text);
    }
}
#endif

/* An rlimit of the policy's own is no less of a limit than the one that `limits` would give. */
static void test_address_space(void **state)
{
    (void)state;
    static const struct {
        const char *more;
        bool limited;
    } rows[] = {
        {"", true},
        {"limits { address_space: false }", false},
        {"limits { address_space: false } rlimit { resource: AS soft: 4294967296 }", true},
        {"limits { address_space: false } rlimit { resource: AS soft: 18446744073709551615 }", false},
        {"limits { address_space: false } rlimit { resource: DATA soft: 4294967296 }", false},
    };
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        char least[512];
        snprintf(least, sizeof least, "%s %s", LEAST, rows[i].more);
        CLEANUP(policy_freep) struct policy *policy = compile(least);
        CLEANUP(buf_free) struct buf text = BUF_INIT;
        assert_int_equal(policy_explain(policy, &text, NULL), 0);
        assert_int_equal(!strstr(text.data, "address space          not limited"), rows[i].limited);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plans),
        cmocka_unit_test(test_address_space),
#ifdef __x86_64__
        cmocka_unit_test(test_explanations),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
