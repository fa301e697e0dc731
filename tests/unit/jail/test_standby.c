/* jail/standby.c: which jobs a jail that was started ahead may run, and what its launcher reads. That such
 * jails run programs as others do is tests/warm/test_node.py's to show. */
#include "jail/standby.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <sys/resource.h>
#include <unistd.h>

#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "jail/base/io.h"
#include "jail/plan/plan.h"

struct wish {
    const char *path, *argv, *envp; /* runs of strings, without the last NUL */
    size_t argv_size, envp_size;
    uint32_t argc, envc;
    uint64_t script_bytes, pids_limit, memory_bytes, timeout_ms;
    bool script, session;
};

static const struct wish standby = {.path = "/bin/node",
                                    .argv = "node\0launch\0--standby",
                                    .argv_size = sizeof "node\0launch\0--standby",
                                    .argc = 3,
                                    .envp = "A=1\0B=2",
                                    .envp_size = sizeof "A=1\0B=2",
                                    .envc = 2,
                                    .pids_limit = 10,
                                    .memory_bytes = 1 << 20};

static struct jail_plan *make(const struct wish *wish)
{
    struct jail_plan *plan = jail_plan_new();
    plan->limits = (struct jail_limits){.memory_bytes = wish->memory_bytes, .timeout_ms = wish->timeout_ms};
    jail_plan_add(plan, JAIL_STEP_ROOT);
    if (wish->script) {
        struct jail_step *step = jail_plan_add(plan, JAIL_STEP_FILE);
        step->file.from_input = true;
        step->file.size_bytes = wish->script_bytes;
    }
    if (wish->session) {
        jail_plan_add(plan, JAIL_STEP_WORKSPACE);
    }
    struct jail_step *limit = jail_plan_add(plan, JAIL_STEP_RLIMIT);
    limit->rlimit.resource = RLIMIT_NPROC;
    limit->rlimit.soft = limit->rlimit.hard = wish->pids_limit;
    struct jail_step *exec = jail_plan_add(plan, JAIL_STEP_EXEC);
    exec->exec.path = jail_plan_text(plan, wish->path);
    exec->exec.argv = jail_plan_bytes(plan, wish->argv, wish->argv_size, 1);
    exec->exec.argc = wish->argc;
    exec->exec.envp = jail_plan_bytes(plan, wish->envp, wish->envp_size, 1);
    exec->exec.envc = wish->envc;
    return plan;
}

static struct wish plain_job(void)
{
    static const char argv[] = "node\0launch\0/main.js\0a\0\0b c";
    struct wish job = standby;
    job.argv = argv;
    job.argv_size = sizeof argv;
    job.argc = 6;
    job.script = true;
    job.script_bytes = 5;
    job.timeout_ms = 99;
    return job;
}

static bool fits(const struct wish *job)
{
    struct jail_plan *a = make(&standby), *b = make(job);
    bool result = jail_standby_fits(a, b);
    jail_plan_free(a);
    jail_plan_free(b);
    return result;
}

static void test_fits(void **state)
{
    (void)state;
    struct wish job = plain_job();
    assert_true(fits(&job));
    job.argc = 3; /* no arguments of its own */
    assert_true(fits(&job));
    job.argc = 2;
    assert_false(fits(&job));
    job = plain_job();
    job.path = "/bin/other";
    assert_false(fits(&job));
    job = plain_job();
    job.pids_limit = 9;
    assert_false(fits(&job));
    job = plain_job();
    job.memory_bytes--;
    assert_false(fits(&job));
    job = plain_job();
    job.session = true;
    assert_false(fits(&job));
    job = plain_job();
    job.envc = 1;
    assert_false(fits(&job));
    job = plain_job();
    job.envp = "A=1\0B=3";
    assert_false(fits(&job));
}

static void test_interpreters_arguments_count(void **state)
{
    (void)state;
    static const char argv[] = "node\0other\0/main.js";
    struct wish job = plain_job();
    job.argv = argv;
    job.argv_size = sizeof argv;
    job.argc = 3;
    assert_false(fits(&job));
}

static void test_program(void **state)
{
    (void)state;
    static const char input[] = "code\nand files", expected[] = "3\0a\0\0b c\0code\n";
    struct wish job = plain_job();
    struct jail_plan *a = make(&standby), *b = make(&job);
    CLEANUP(fd_closep) int input_fd = -1;
    CLEANUP(fd_closep) int fd = -1;
    struct err err = {0};
    assert_int_equal(io_memfd("input", input, sizeof input - 1, &input_fd), 0);
    assert_int_equal(jail_standby_program(a, b, input_fd, &fd, &err), 0);
    char got[64];
    assert_int_equal(read(fd, got, sizeof got), sizeof expected - 1);
    assert_memory_equal(got, expected, sizeof expected - 1);

    /* A script that is a file in the jail. */
    static const char named[] = "4\0/main.js\0a\0\0b c";
    CLEANUP(fd_closep) int without = -1;
    assert_int_equal(jail_standby_program(a, b, -1, &without, &err), 0);
    assert_int_equal(read(without, got, sizeof got), sizeof named);
    assert_memory_equal(got, named, sizeof named);

    /* A script that is shorter than was said. */
    int none = -1;
    job.script_bytes = sizeof input;
    struct jail_plan *longer = make(&job);
    assert_true(jail_standby_program(a, longer, input_fd, &none, &err) < 0);
    assert_int_equal(none, -1);
    jail_plan_free(longer);
    jail_plan_free(a);
    jail_plan_free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fits),
        cmocka_unit_test(test_interpreters_arguments_count),
        cmocka_unit_test(test_program),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
