/* Jails made by a template, from the shipped python policy's own plan: what is parked is confined like what
 * is exec'd, runs what it is handed, and is gone afterwards. The template here is tests/tools/zygote_echo.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "config/server/config.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "jail/base/io.h"
#include "jail/jail.h"
#include "jail/plan/template_plan.h"
#include "jail/resources/idmap.h"
#include "jail/resources/scratch.h"
#include "jail/template.h"
#include "policy/policy.h"

#define POOL_BASE  1879048192u
#define POOL_COUNT 64u

#ifdef __x86_64__
#define NATIVE      "x86_64"
#define LOADER_NAME "ld-linux-x86-64.so.2"
#define LOADER      "/lib64/" LOADER_NAME
#else
#define NATIVE      "aarch64"
#define LOADER_NAME "ld-linux-aarch64.so.1"
#define LOADER      "/lib/" LOADER_NAME
#endif

struct fixture {
    struct idmap_pool *pool;
    struct policy *policy;
    struct jail_template *template;
    uint32_t template_uid;
    bool filter_early;
};

static char *word(const char *text)
{
    return (char *)(uintptr_t)text;
}

/* What programs of this machine need of it. */
static char libraries[] = "/usr/lib/" NATIVE "-linux-gnu", loader[] = LOADER;
static char loader_file[] = "/usr/lib/" NATIVE "-linux-gnu/" LOADER_NAME;
static struct interpreter_need needs[] = {{.path = libraries}, {.path = loader, .target = loader_file}};
static const struct runtime_config found = {.needs = needs, .n_needs = ARRAY_SIZE(needs)};

static struct jail_plan *full_plan(const struct fixture *fixture, const char *argument, uint64_t timeout_ms)
{
    struct runtime_config runtime = {.name = word("python"),
                                     .interpreter = word("/usr/bin/python3.11"),
                                     .extension = word("txt"),
                                     .policy = word("python")};
    char *args[] = {word("one"), word(argument)};
    struct job_env env[] = {{.name = word("TZ"), .value = word("UTC")}};
    struct job job = {.runtime = word("python"),
                      .args = args,
                      .n_args = 2,
                      .env = env,
                      .n_env = 1,
                      .limits = {.timeout_ms = timeout_ms}};
    /* As if a cgroup held them: an RLIMIT_AS leaves no room for a sanitizer. */
    struct policy_ceilings ceilings = {.default_timeout_ms = 10000, .max_timeout_ms = 10000, .cgroup = true};
    struct policy_program program = {.runtime = &runtime};
    struct jail_plan *plan = NULL;
    struct err err = {0};
    if (policy_build_plan(fixture->policy, &ceilings, &job, &program, &plan, &err) < 0) {
        fail_msg("%s: %s", err.item, err.text);
    }
    return plan;
}

static struct jail_plan *run_plan(const struct fixture *fixture, const char *argument, uint64_t timeout_ms)
{
    struct jail_plan *plan = full_plan(fixture, argument, timeout_ms), *run = NULL;
    struct err err = {0};
    if (jail_plan_for_run(plan, &run, &err) < 0) {
        fail_msg("%s: %s", err.step, err.text);
    }
    jail_plan_free(plan);
    return run;
}

/* build/tests/tools/zygote_echo, from build/tests/unit/policy/test_template. */
static void find_program(char *ret, size_t size)
{
    ssize_t n = readlink("/proc/self/exe", ret, size - 1);
    assert_true(n > 0);
    ret[n] = '\0';
    for (int up = 0; up < 3; up++) {
        *strrchr(ret, '/') = '\0';
    }
    strncat(ret, "/tools/zygote_echo", size - strlen(ret) - 1);
}

static void start_template(struct fixture *fixture)
{
    struct err err = {0};
    bool range = idmap_pool_mode(fixture->pool) == IDMAP_RANGE;
    uint32_t uid, gid;
    assert_int_equal(idmap_take(fixture->pool, &uid, &gid), 0);
    fixture->template_uid = uid;
    char program[4096];
    find_program(program, sizeof program);
    struct stat st;
    int program_fd = open(program, O_RDONLY | O_CLOEXEC);
    assert_true(program_fd >= 0 && fstat(program_fd, &st) == 0);
    struct jail_plan *full = full_plan(fixture, "x", 0), *plan = NULL;
    char *argv[] = {NULL};
    uint32_t inside = range ? TEMPLATE_INNER_BASE + (uid - POOL_BASE) : full->uid;
    if (jail_plan_for_template(full, (uint64_t)st.st_size, 0, argv, false, inside, range, &plan, &err) < 0) {
        fail_msg("%s: %s", err.step, err.text);
    }
    struct jail_template_options options = {.plan = plan,
                                            .program_fd = program_fd,
                                            .log_fd = 2,
                                            .outer_uid = uid,
                                            .outer_gid = gid,
                                            .range_base = range ? POOL_BASE : 0,
                                            .range_count = range ? POOL_COUNT : 0};
    if (jail_template_new(&options, &fixture->template, &err) < 0) {
        fail_msg("%s: %s", err.step, err.text);
    }
    close(program_fd);
    jail_plan_free(full);
    jail_plan_free(plan);
}

static int set_up(void **state)
{
    static struct fixture fixture;
    struct err err = {0};
    if (idmap_pool_new(POOL_BASE, POOL_COUNT, &fixture.pool, &err) < 0 ||
        policy_resolve("python", &fixture.policy, &err) < 0) {
        fprintf(stderr, "%s: %s\n", err.item, err.text);
        return -1;
    }
    policy_set_interpreter(fixture.policy, &found);
    start_template(&fixture);
    *state = &fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;
    jail_template_free(fixture->template);
    policy_free(fixture->policy);
    idmap_pool_free(fixture->pool);
    return 0;
}

struct warm {
    struct jail *jail;
    uint32_t uid;
    int scratch;
};

static void wait_for(struct jail *jail, enum jail_state state)
{
    while (jail_dispatch(jail) != state && jail_state(jail) != JAIL_ENDED) {
        struct pollfd ready = {.fd = jail_fd(jail), .events = POLLIN};
        assert_int_equal(poll(&ready, 1, 20000), 1);
    }
}

static struct warm park(struct fixture *fixture)
{
    struct warm warm = {.scratch = -1};
    struct err err = {0};
    uint32_t gid;
    struct jail_plan *plan = run_plan(fixture, "parked", 0);
    assert_int_equal(idmap_take(fixture->pool, &warm.uid, &gid), 0);
    if (scratch_open(plan->limits.scratch_bytes, plan->limits.scratch_inodes, warm.uid, gid, &warm.scratch,
                     &err) < 0) {
        fail_msg("%s", err.text);
    }
    struct jail_park_options options = {.plan = plan,
                                        .scratch_fd = warm.scratch,
                                        .outer_uid = warm.uid,
                                        .filter_early = fixture->filter_early,
                                        .files_late = fixture->filter_early};
    if (jail_park(fixture->template, &options, &warm.jail, &err) < 0) {
        fail_msg("%s", err.text);
    }
    wait_for(warm.jail, JAIL_PARKED);
    if (jail_state(warm.jail) != JAIL_PARKED) {
        struct jail_result result;
        jail_collect(warm.jail, &result, &err);
        fail_msg("%s: %s", err.step, err.text);
    }
    jail_plan_free(plan);
    return warm;
}

static void discard(struct fixture *fixture, struct warm *warm)
{
    jail_free(warm->jail);
    close(warm->scratch);
    idmap_give_back(fixture->pool, warm->uid);
}

struct outcome {
    struct jail_result result;
    struct err err;
    char output[8192];
};

static struct outcome finish(struct fixture *fixture, struct warm *warm, const char *argument,
                             uint64_t timeout_ms)
{
    struct outcome outcome;
    memset(&outcome, 0, sizeof outcome);
    int script, out[2], in[2];
    assert_int_equal(io_memfd("script", "the script", 10, &script), 0);
    assert_int_equal(
        scratch_put_script(warm->scratch, "main.txt", script, 10, warm->uid, warm->uid, &outcome.err), 0);
    close(script);
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    assert_int_equal(pipe2(in, O_CLOEXEC), 0);
    struct jail_plan *plan = run_plan(fixture, argument, timeout_ms);
    assert_int_equal(jail_run(warm->jail, plan, (int[]){in[0], out[1], out[1]}, 3, &outcome.err), 0);
    jail_plan_free(plan);
    close(in[0]);
    close(in[1]);
    close(out[1]);
    wait_for(warm->jail, JAIL_ENDED);
    assert_int_equal(jail_collect(warm->jail, &outcome.result, &outcome.err), 0);
    assert_true(io_read_full(out[0], outcome.output, sizeof outcome.output - 1) >= 0);
    close(out[0]);
    discard(fixture, warm);
    return outcome;
}

static void check_confinement(struct fixture *fixture)
{
    struct warm warm = park(fixture);
    struct outcome o = finish(fixture, &warm, "look", 0);
    assert_string_equal(o.err.text, "");
    assert_int_equal(o.result.end, JAIL_END_PROGRAM);
    assert_int_equal(WEXITSTATUS(o.result.wstatus), 7);
    static const char *const expected[] = {
        "arg /usr/bin/python3.11\n",
        "arg /immure/main.txt\n",
        "arg one\n",
        "arg look\n",
        "env TZ=UTC\n",
        "uid 1000 gid 1000 pid 2 cwd /workspace\n",
        "/immure: main.txt\n",
        "/proc/self/fd: 0 1 2 3\n",
        "/immure/main.txt: the script",
        "/proc/1/environ: No such file",
        "CapEff:\t0000000000000000",
        "CapBnd:\t0000000000000000",
        "CapPrm:\t0000000000000000",
        "NoNewPrivs:\t1",
        "Seccomp:\t2",
        "Groups:\t",
        "write: Read-only file system",
        "workspace: written",
        "mkdir: done",
        "/tmp:\n",
        "/workspace:\n",
    };
    for (size_t i = 0; i < ARRAY_SIZE(expected); i++) {
        if (!strstr(o.output, expected[i])) {
            fail_msg("no %s in\n%s", expected[i], o.output);
        }
    }
}

static void test_confinement(void **state)
{
    struct fixture *fixture = *state;
    check_confinement(fixture);
    fixture->filter_early = true;
    check_confinement(fixture);
}

/* By the PID alone OpenSSL tells a fork, and does not see one where it is the template's. */
static void test_no_process_of_a_job_has_its_template_s_pid(void **state)
{
    struct fixture *fixture = *state;
    struct warm warm = park(fixture);
    struct outcome o = finish(fixture, &warm, "pids", 0);
    assert_string_equal(o.err.text, "");
    assert_string_equal(o.output, "template 3\npid 2\npid 4\npid 5\npid 6\npid 7\n");
}

/* What the parked process may have applied already cannot be taken back. */
static void test_another_plan_is_refused(void **state)
{
    struct fixture *fixture = *state;
    struct warm warm = park(fixture);
    struct err err = {0};
    struct jail_plan *plan = run_plan(fixture, "exit", 0);
    uint32_t changed = 0;
    for (uint32_t i = 0; i < plan->n_steps; i++) {
        struct jail_step *step = &plan->steps[i];
        if (step->kind == JAIL_STEP_RLIMIT && step->rlimit.resource == RLIMIT_FSIZE) {
            step->rlimit.soft--;
            changed++;
        }
    }
    assert_int_equal(changed, 1);
    assert_int_equal(jail_run(warm.jail, plan, (int[]){0, 1, 2}, 3, &err), -EINVAL);
    jail_plan_free(plan);
    assert_int_equal(WEXITSTATUS(finish(fixture, &warm, "exit", 0).result.wstatus), 3);
}

static void test_verdicts(void **state)
{
    struct fixture *fixture = *state;
    struct warm warm = park(fixture);
    struct outcome o = finish(fixture, &warm, "exit", 0);
    assert_int_equal(o.result.end, JAIL_END_PROGRAM);
    assert_int_equal(WEXITSTATUS(o.result.wstatus), 3);
    warm = park(fixture);
    o = finish(fixture, &warm, "segv", 0);
    assert_true(WIFSIGNALED(o.result.wstatus) && WTERMSIG(o.result.wstatus) == SIGSEGV);
    warm = park(fixture);
    o = finish(fixture, &warm, "loop", 2000); /* of which a busy machine has some for it */
    assert_int_equal(o.result.end, JAIL_END_DEADLINE);
    assert_in_range(o.result.cpu_ns / 1000000, 10, 20000);
}

static void test_many_at_once(void **state)
{
    struct fixture *fixture = *state;
    struct warm warm[20];
    for (size_t i = 0; i < ARRAY_SIZE(warm); i++) {
        warm[i] = park(fixture);
        for (size_t n = 0; n < i; n++) {
            assert_true(idmap_pool_mode(fixture->pool) == IDMAP_SELF || warm[n].uid != warm[i].uid);
        }
    }
    for (size_t i = 0; i < ARRAY_SIZE(warm); i++) {
        if (i % 2) {
            discard(fixture, &warm[i]);
        } else {
            assert_int_equal(WEXITSTATUS(finish(fixture, &warm[i], "exit", 0).result.wstatus), 3);
        }
    }
}

static void test_the_template_takes_its_jails_along(void **state)
{
    struct fixture *fixture = *state;
    struct warm warm = park(fixture);
    jail_template_free(fixture->template);
    fixture->template = NULL;
    wait_for(warm.jail, JAIL_ENDED);
    discard(fixture, &warm);
    idmap_give_back(fixture->pool, fixture->template_uid);
    start_template(fixture);
    warm = park(fixture);
    assert_int_equal(WEXITSTATUS(finish(fixture, &warm, "exit", 0).result.wstatus), 3);
}

static const struct jail_step *find(const struct jail_plan *plan, enum jail_step_kind kind)
{
    for (uint32_t i = 0; i < plan->n_steps; i++) {
        if (plan->steps[i].kind == kind) {
            return &plan->steps[i];
        }
    }
    fail_msg("no step %s", jail_step_word(kind));
    return NULL;
}

static void assert_same_strings(const struct jail_plan *a, jail_ref ref_a, const struct jail_plan *b,
                                jail_ref ref_b, uint32_t count)
{
    const char *text_a = jail_plan_string(a, ref_a), *text_b = jail_plan_string(b, ref_b);
    for (uint32_t i = 0; i < count; i++) {
        assert_string_equal(text_a, text_b);
        text_a += strlen(text_a) + 1;
        text_b += strlen(text_b) + 1;
    }
}

/* A job's plan has what its steps refer to, and not the files that only the template's root has. */
static void test_what_a_job_takes_along(void **state)
{
    struct fixture *fixture = *state;
    struct jail_plan *full = full_plan(fixture, "x", 0), *run = run_plan(fixture, "x", 0);
    struct jail_step *a = (struct jail_step *)(uintptr_t)find(full, JAIL_STEP_SECCOMP);
    const struct jail_step *b = find(run, JAIL_STEP_SECCOMP);
    assert_true(a->seccomp.length > 0 && a->seccomp.length == b->seccomp.length);
    assert_memory_equal(full->arena + a->seccomp.bpf, run->arena + b->seccomp.bpf,
                        a->seccomp.length * sizeof(struct sock_filter));
    const struct jail_step *exec = find(full, JAIL_STEP_EXEC), *program = find(run, JAIL_STEP_RUN);
    assert_int_equal(exec->exec.argc, program->exec.argc);
    assert_int_equal(exec->exec.envc, program->exec.envc);
    assert_same_strings(full, exec->exec.path, run, program->exec.path, 1);
    assert_same_strings(full, exec->exec.argv, run, program->exec.argv, exec->exec.argc);
    assert_same_strings(full, exec->exec.envp, run, program->exec.envp, exec->exec.envc);
    assert_same_strings(full, find(full, JAIL_STEP_HOSTNAME)->hostname.name, run,
                        find(run, JAIL_STEP_HOSTNAME)->hostname.name, 1);
    assert_string_equal(jail_plan_string(run, find(run, JAIL_STEP_WORKDIR)->workdir.path), "/workspace");
    assert_string_equal(jail_step_path(run, find(run, JAIL_STEP_PROC)), "/proc");
    assert_string_equal(jail_step_path(run, find(run, JAIL_STEP_SCRATCH)), "/tmp");
    assert_int_equal(run->namespaces, full->namespaces);
    assert_memory_equal(&run->limits, &full->limits, sizeof run->limits);
    assert_true(run->arena_size < full->arena_size);
    jail_plan_free(run);

    /* What does not lie in the plan cannot be taken along. */
    struct err err = {0};
    a->seccomp.length = full->arena_size / (uint32_t)sizeof(struct sock_filter) + 1;
    assert_true(jail_plan_for_run(full, &run, &err) < 0);
    jail_plan_free(full);
    full = full_plan(fixture, "x", 0);
    a = (struct jail_step *)(uintptr_t)find(full, JAIL_STEP_EXEC);
    a->exec.envc = full->arena_size;
    assert_true(jail_plan_for_run(full, &run, &err) < 0);
    jail_plan_free(full);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_a_job_takes_along),
        cmocka_unit_test(test_confinement),
        cmocka_unit_test(test_no_process_of_a_job_has_its_template_s_pid),
        cmocka_unit_test(test_another_plan_is_refused),
        cmocka_unit_test(test_verdicts),
        cmocka_unit_test(test_many_at_once),
        cmocka_unit_test(test_the_template_takes_its_jails_along),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
