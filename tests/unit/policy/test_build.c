/* policy/build.c and tree.c: what a job's own wishes change in its plan, and what is refused before a jail is
 * made. Whole plans are compared by test_golden.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/resource.h>

#include <cmocka.h>

#include "config/server/config.h"
#include "tests/unit/policy/helper.h"

static const struct policy_ceilings server = {.cgroup = true, .default_timeout_ms = 1000};
static const struct policy_ceilings without_cgroup = {.default_timeout_ms = 1000};

static struct jail_plan *build(const struct policy *policy, const struct policy_ceilings *ceilings,
                               const struct job *job, const struct policy_program *program)
{
    struct jail_plan *plan = NULL;
    struct err err = {0};
    if (policy_build_plan(policy, ceilings, job, program, &plan, &err) < 0) {
        fail_msg("%s: %s", err.item, err.text);
    }
    if (jail_plan_check(plan, &err) < 0) {
        fail_msg("%s: %s", err.step, err.text);
    }
    return plan;
}

/* A plan of /bin/true. */
static struct jail_plan *build_true(const struct policy *policy, const struct policy_ceilings *ceilings,
                                    const struct job *job)
{
    char path[] = "/bin/true";
    char *argv[] = {path};
    const struct policy_program program = {.argv = argv, .n_argv = 1};
    return build(policy, ceilings, job, &program);
}

static const struct jail_step *find(const struct jail_plan *plan, enum jail_step_kind kind, uint32_t resource)
{
    for (uint32_t i = 0; i < plan->n_steps; i++) {
        const struct jail_step *step = &plan->steps[i];
        if (step->kind == kind && (kind != JAIL_STEP_RLIMIT || step->rlimit.resource == resource)) {
            return step;
        }
    }
    return NULL;
}

static void assert_run(const struct jail_plan *plan, jail_ref at, uint32_t count, const char *const *strings)
{
    for (uint32_t i = 0; i < count; i++) {
        assert_string_equal(jail_plan_string(plan, at), strings[i]);
        at += (jail_ref)strlen(strings[i]) + 1;
    }
}

static void test_runtime(void **state)
{
    (void)state;
    CLEANUP(policy_freep) struct policy *policy = compile(LEAST);
    char interpreter[] = "/usr/bin/python3", isolated[] = "-I", extension[] = "py", name[] = "python";
    char *args[] = {isolated};
    const struct runtime_config runtime = {
        .name = name, .interpreter = interpreter, .args = args, .n_args = 1, .extension = extension};
    const struct policy_program program = {.runtime = &runtime};
    char first[] = "a b", second[] = "";
    char *job_args[] = {first, second};
    const struct job job = {.code_size = 70000, .args = job_args, .n_args = 2};
    CLEANUP(plan_freep) struct jail_plan *plan = build(policy, &server, &job, &program);

    const struct jail_step *exec = find(plan, JAIL_STEP_EXEC, 0);
    static const char *const want[] = {"/usr/bin/python3", "-I", "/immure/main.py", "a b", ""};
    assert_string_equal(jail_plan_string(plan, exec->exec.path), "/usr/bin/python3");
    assert_int_equal(exec->exec.argc, 5);
    assert_run(plan, exec->exec.argv, 5, want);

    const struct jail_step *file = find(plan, JAIL_STEP_FILE, 0);
    assert_string_equal(jail_plan_string(plan, file->file.path), "/immure/main.py");
    assert_true(file->file.from_input);
    assert_int_equal(file->file.offset, 0);
    assert_int_equal(file->file.size_bytes, 70000);
    assert_int_equal(file->file.mode, 0444);
    /* The root holds the script. */
    assert_true(find(plan, JAIL_STEP_ROOT, 0)->root.size_bytes > 70000);
}

static void test_environment(void **state)
{
    (void)state;
    CLEANUP(policy_freep)
    struct policy *policy =
        compile(LEAST "env { name: 'TZ' value: 'UTC' } env { name: 'HOME' value: '/workspace' } "
                      "env { name: 'EMPTY' } env_allow: ['TZ', 'APP_*']");
    char tz[] = "TZ", utc[] = "Asia/Tokyo", key[] = "APP_KEY", value[] = "a=b c";
    struct job_env env[] = {{key, value}, {tz, utc}};
    const struct job job = {.env = env, .n_env = 2};
    CLEANUP(plan_freep) struct jail_plan *plan = build_true(policy, &server, &job);
    const struct jail_step *exec = find(plan, JAIL_STEP_EXEC, 0);
    static const char *const want[] = {"TZ=Asia/Tokyo", "HOME=/workspace", "EMPTY=", "APP_KEY=a=b c"};
    assert_int_equal(exec->exec.envc, 4);
    assert_run(plan, exec->exec.envp, 4, want);
}

static struct policy_bind bind_of(char *source, char *destination, bool writable)
{
    return (struct policy_bind){
        .source = source, .destination = destination, .writable = writable, .slot = JAIL_FD_BIND};
}

/* What the command line adds comes behind all that the policy shows, and Landlock knows of it. */
static void test_binds(void **state)
{
    (void)state;
    CLEANUP(policy_freep)
    struct policy *policy =
        compile("name: 'test' " WORKSPACE
                "seccomp { default_action: NOTIFY rule { action: ALLOW syscall: 'execve' } }");
    char path[] = "/bin/true", source[] = "/host/a", place[] = "/home/me/a", *argv[] = {path};
    const struct policy_ceilings landlocked = {.landlock_abi = JAIL_LANDLOCK_NEWEST};
    for (int writable = 0; writable <= 1; writable++) {
        const struct policy_bind bind = bind_of(source, place, writable);
        const struct policy_program program = {.argv = argv,
                                               .n_argv = 1,
                                               .binds = &bind,
                                               .n_binds = 1,
                                               .working_directory = place,
                                               .terminal = true};
        const struct job job = {0};
        CLEANUP(plan_freep) struct jail_plan *plan = build(policy, &landlocked, &job, &program);
        CLEANUP(buf_free) struct buf text = BUF_INIT;
        jail_plan_print(plan, &text);
        assert_non_null(strstr(text.data, "mkdir /home/me mode 0755"));
        assert_non_null(
            strstr(text.data, writable ? "bind /host/a at /home/me/a nosuid nodev recursive given"
                                       : "bind /host/a at /home/me/a ro nosuid nodev recursive given"));
        assert_non_null(strstr(text.data, "session with a terminal"));
        assert_non_null(strstr(text.data, "workdir /home/me/a"));
        assert_int_equal(find(plan, JAIL_STEP_NO_SET_ID, 0) != NULL, writable);
        const struct jail_step *landlock = find(plan, JAIL_STEP_LANDLOCK, 0);
        bool named = false;
        jail_ref at = landlock->landlock.writable;
        for (uint32_t i = 0; i < landlock->landlock.n_writable; i++) {
            named |= strcmp(jail_plan_string(plan, at), place) == 0;
            at += (jail_ref)strlen(jail_plan_string(plan, at)) + 1;
        }
        assert_int_equal(named, writable);
    }
}

static void test_binds_that_will_not_do(void **state)
{
    (void)state;
    CLEANUP(policy_freep)
    struct policy *policy = compile(LEAST "mount { destination: '/a/b' bind { source: '/usr' } }");
    static const struct {
        const char *place, *words;
    } cases[] = {{"/a", "would hide /a/b"},
                 {"/immure/x", "immure's own place"},
                 {"/", "the root itself"},
                 {"/x/../y", "'.' or '..'"},
                 {"/x/", "nor end with '/'"}};
    char path[] = "/bin/true", source[] = "/host", *argv[] = {path};
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        char place[16];
        snprintf(place, sizeof place, "%s", cases[i].place);
        const struct policy_bind bind = bind_of(source, place, false);
        const struct policy_program program = {.argv = argv, .n_argv = 1, .binds = &bind, .n_binds = 1};
        const struct job job = {0};
        struct jail_plan *plan = NULL;
        struct err err = {0};
        assert_true(policy_build_plan(policy, &server, &job, &program, &plan, &err) < 0);
        assert_string_equal(err.item, cases[i].place);
        assert_non_null(strstr(err.text, cases[i].words));
    }
}

/* What would be a directory of the scratch is the workspace that the session's jobs share, under the same
 * rules. */
static void test_session(void **state)
{
    (void)state;
    static const char text[] =
        "name: 'test'\n"
        "mount { destination: '/home' scratch { directory: WORK } no_exec: true }\n"
        "mount { destination: '/tmp' scratch { directory: TMP } }\n" OPEN "working_directory: '/home'";
    CLEANUP(policy_freep) struct policy *policy = compile(text);
    char name[] = "s";
    const struct job alone = {0}, shared = {.session_id = name};
    CLEANUP(plan_freep) struct jail_plan *without = build_true(policy, &server, &alone);
    CLEANUP(plan_freep) struct jail_plan *with = build_true(policy, &server, &shared);
    assert_null(find(without, JAIL_STEP_WORKSPACE, 0));
    const struct jail_step *step = find(with, JAIL_STEP_WORKSPACE, 0);
    assert_non_null(step);
    assert_string_equal(jail_plan_string(with, step->workspace.path), "/home");
    assert_int_equal(step->workspace.flags, JAIL_MOUNT_NOSUID | JAIL_MOUNT_NODEV | JAIL_MOUNT_NOEXEC);
    assert_int_equal(with->n_steps, without->n_steps);
    step = find(with, JAIL_STEP_SUBMOUNT, 0); /* the others are the job's own still */
    assert_string_equal(jail_plan_string(with, step->submount.path), "/tmp");
    assert_non_null(find(with, JAIL_STEP_SCRATCH, 0));

    CLEANUP(policy_freep)
    struct policy *bare =
        compile("name: 'test'\nmount { destination: '/tmp' scratch { directory: TMP } }\n" OPEN
                "working_directory: '/tmp'");
    char path[] = "/bin/true";
    char *argv[] = {path};
    const struct policy_program program = {.argv = argv, .n_argv = 1};
    struct jail_plan *plan = NULL;
    struct err err = {0};
    assert_true(policy_build_plan(bare, &server, &shared, &program, &plan, &err) < 0);
    assert_int_equal(err.kind, ERR_INVALID);
    assert_string_equal(err.item, "session_id");
    assert_null(plan);
}

static void test_limits_reach_the_plan(void **state)
{
    (void)state;
    CLEANUP(policy_freep) struct policy *policy = compile(LEAST "limits { pids: 20 scratch_inodes: 99 }");
    const struct job job = {.limits = {.memory_bytes = 1 << 24,
                                       .pids = 7,
                                       .cpu_ms = 5,
                                       .cpu_percent = 30,
                                       .scratch_bytes = 8192,
                                       .timeout_ms = 77}};
    CLEANUP(plan_freep) struct jail_plan *plan = build_true(policy, &server, &job);
    assert_int_equal(plan->limits.memory_bytes, 1 << 24);
    assert_int_equal(plan->limits.pids, 7);
    assert_int_equal(plan->limits.cpu_ms, 5);
    assert_int_equal(plan->limits.cpu_percent, 30);
    assert_int_equal(plan->limits.scratch_bytes, 8192);
    assert_int_equal(plan->limits.scratch_inodes, 99);
    assert_int_equal(plan->limits.timeout_ms, 77);
}

static void assert_rlimit(const struct jail_plan *plan, uint32_t resource, uint64_t soft, uint64_t hard)
{
    const struct jail_step *step = find(plan, JAIL_STEP_RLIMIT, resource);
    assert_non_null(step);
    assert_int_equal(step->rlimit.soft, soft);
    assert_int_equal(step->rlimit.hard, hard);
}

/* NPROC always; AS where no cgroup counts memory; the policy's own where it is lower. */
static void test_rlimits(void **state)
{
    (void)state;
    const struct job job = {.limits = {.memory_bytes = 1 << 24, .pids = 7}};
    CLEANUP(policy_freep)
    struct policy *plain = compile(LEAST "rlimit { resource: NOFILE soft: 10 hard: 20 }");
    CLEANUP(plan_freep) struct jail_plan *with = build_true(plain, &server, &job);
    assert_rlimit(with, RLIMIT_NPROC, 8, 8);
    assert_rlimit(with, RLIMIT_NOFILE, 10, 20);
    assert_null(find(with, JAIL_STEP_RLIMIT, RLIMIT_AS));
    CLEANUP(plan_freep) struct jail_plan *without = build_true(plain, &without_cgroup, &job);
    assert_rlimit(without, RLIMIT_NPROC, 8, 8);
    assert_rlimit(without, RLIMIT_AS, (2ull << 24) + (1ull << 30), (2ull << 24) + (1ull << 30));

    CLEANUP(policy_freep)
    struct policy *low =
        compile(LEAST "rlimit { resource: NPROC soft: 3 hard: 100 } rlimit { resource: AS soft: 4096 }");
    CLEANUP(plan_freep) struct jail_plan *lower = build_true(low, &without_cgroup, &job);
    assert_rlimit(lower, RLIMIT_NPROC, 3, 8);
    assert_rlimit(lower, RLIMIT_AS, 4096, 4096);
    CLEANUP(plan_freep) struct jail_plan *own = build_true(low, &server, &job);
    assert_rlimit(own, RLIMIT_AS, 4096, 4096);

    CLEANUP(policy_freep) struct policy *huge = compile(LEAST "limits { memory_bytes: 1125899906842624 }");
    const struct job none = {0};
    CLEANUP(plan_freep) struct jail_plan *most = build_true(huge, &without_cgroup, &none);
    assert_rlimit(most, RLIMIT_AS, (2ull << 50) + (1ull << 30), (2ull << 50) + (1ull << 30));
}

/* A policy that says nothing about a limit has ours, never those of whoever started the server. */
static void test_default_rlimits(void **state)
{
    (void)state;
    const struct job job = {0};
    static const struct {
        uint32_t resource;
        uint64_t limit;
    } rows[] = {{RLIMIT_CORE, 0},   {RLIMIT_NOFILE, 320}, {RLIMIT_MEMLOCK, 0},      {RLIMIT_MSGQUEUE, 0},
                {RLIMIT_RTPRIO, 0}, {RLIMIT_NICE, 0},     {RLIMIT_SIGPENDING, 1024}};
    CLEANUP(policy_freep) struct policy *silent = compile(LEAST);
    CLEANUP(plan_freep) struct jail_plan *plan = build_true(silent, &server, &job);
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        assert_rlimit(plan, rows[i].resource, rows[i].limit, rows[i].limit);
    }
    CLEANUP(policy_freep)
    struct policy *own = compile(LEAST "rlimit { resource: NOFILE soft: 5000 hard: 6000 }");
    CLEANUP(plan_freep) struct jail_plan *said = build_true(own, &server, &job);
    assert_rlimit(said, RLIMIT_NOFILE, 5000, 6000);
    assert_rlimit(said, RLIMIT_CORE, 0, 0);
}

static void test_capabilities(void **state)
{
    (void)state;
    const struct job job = {0};
    CLEANUP(policy_freep)
    struct policy *policy = compile(LEAST "capability: ['CAP_CHOWN', 'CAP_NET_BIND_SERVICE']");
    CLEANUP(plan_freep) struct jail_plan *plan = build_true(policy, &server, &job);
    assert_int_equal(find(plan, JAIL_STEP_CAPABILITIES, 0)->capabilities.keep, 1 | 1 << 10);
    CLEANUP(policy_freep) struct policy *none = compile(LEAST);
    CLEANUP(plan_freep) struct jail_plan *bare = build_true(none, &server, &job);
    assert_int_equal(find(bare, JAIL_STEP_CAPABILITIES, 0)->capabilities.keep, 0);
}

/* What an operator left out is not in the plan. */
static void test_namespaces(void **state)
{
    (void)state;
    const struct job job = {0};
    CLEANUP(policy_freep) struct policy *few = compile(LEAST "namespace: [USER, MOUNT, PID]");
    CLEANUP(plan_freep) struct jail_plan *plan = build_true(few, &server, &job);
    assert_null(find(plan, JAIL_STEP_HOSTNAME, 0));
    assert_null(find(plan, JAIL_STEP_LOOPBACK, 0));
    CLEANUP(policy_freep) struct policy *all = compile(LEAST "loopback: true hostname: 'box'");
    CLEANUP(plan_freep) struct jail_plan *full = build_true(all, &server, &job);
    assert_non_null(find(full, JAIL_STEP_LOOPBACK, 0));
    assert_string_equal(jail_plan_string(full, find(full, JAIL_STEP_HOSTNAME, 0)->hostname.name), "box");
}

static void assert_build_refused(const struct policy *policy, const struct job *job,
                                 const struct policy_program *program, enum err_kind kind, const char *item,
                                 const char *words)
{
    struct jail_plan *plan = NULL;
    struct err err = {0};
    assert_true(policy_build_plan(policy, &server, job, program, &plan, &err) < 0);
    assert_null(plan);
    assert_int_equal(err.kind, kind);
    assert_string_equal(err.item, item);
    if (!strstr(err.text, words)) {
        fail_msg("refused with \"%s\", expected \"%s\"", err.text, words);
    }
}

/* A path of any spelling, or a name for the jail to look up. */
static void test_commands(void **state)
{
    (void)state;
    CLEANUP(policy_freep) struct policy *policy = compile(LEAST);
    const struct job job = {0};
    static const char *const paths[] = {"/bin/true", "true", "./true", "../bin//true"};
    for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
        char text[32];
        snprintf(text, sizeof text, "%s", paths[i]);
        char *argv[] = {text};
        const struct policy_program program = {.argv = argv, .n_argv = 1};
        CLEANUP(plan_freep) struct jail_plan *plan = build(policy, &server, &job, &program);
        assert_string_equal(jail_plan_string(plan, find(plan, JAIL_STEP_EXEC, 0)->exec.path), paths[i]);
    }
}

static void test_programs_refused(void **state)
{
    (void)state;
    CLEANUP(policy_freep) struct policy *policy = compile(LEAST);
    const struct job job = {0};
    const struct policy_program none = {0};
    assert_build_refused(policy, &job, &none, ERR_INVALID, "command", "is missing");
    char empty[] = "", longest_path[5000];
    memset(longest_path, 'x', sizeof longest_path - 1);
    longest_path[sizeof longest_path - 1] = '\0';
    char *empty_argv[] = {empty}, *long_argv[] = {longest_path};
    const struct policy_program empty_program = {.argv = empty_argv, .n_argv = 1};
    assert_build_refused(policy, &job, &empty_program, ERR_INVALID, "command", "is missing");
    const struct policy_program long_program = {.argv = long_argv, .n_argv = 1};
    assert_build_refused(policy, &job, &long_program, ERR_INVALID, "command", "longer than a path can be");
    char name[] = "python", relative[] = "python3", whole[] = "/usr/bin/python3", py[] = "py",
         slash[] = "a/b";
    const struct runtime_config bad_interpreter = {.name = name, .interpreter = relative, .extension = py};
    const struct policy_program one = {.runtime = &bad_interpreter};
    assert_build_refused(policy, &job, &one, ERR_CONFIG, "python", "interpreter python3: must be absolute");
    const struct runtime_config bad_extension = {.name = name, .interpreter = whole, .extension = slash};
    const struct policy_program two = {.runtime = &bad_extension};
    assert_build_refused(policy, &job, &two, ERR_CONFIG, "python", "extension a/b: must not hold '/'");
    char longest[300];
    memset(longest, 'x', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    const struct runtime_config long_extension = {.name = name, .interpreter = whole, .extension = longest};
    const struct policy_program three = {.runtime = &long_extension};
    assert_build_refused(policy, &job, &three, ERR_CONFIG, "python", "extension: is too long");
}

static void test_wishes_refused(void **state)
{
    (void)state;
    CLEANUP(policy_freep) struct policy *policy = compile(LEAST "env_allow: '*'");
    char path[] = "/bin/true";
    char *argv[] = {path};
    const struct policy_program program = {.argv = argv, .n_argv = 1};
    const struct job greedy = {.limits = {.pids = 1000}};
    assert_build_refused(policy, &greedy, &program, ERR_INVALID, "limits.pids", "must be from 1 to 64");

    /* One string longer than execve takes, and many that are too long together. */
    CLEANUP(freep) char *big = calloc(1, 200000);
    memset(big, 'x', 131072);
    char *one[] = {big};
    const struct job long_argument = {.args = one, .n_args = 1};
    assert_build_refused(policy, &long_argument, &program, ERR_INVALID, "args", "at most 131071 bytes each");
    char variable[] = "V";
    struct job_env env[] = {{variable, big}};
    const struct job long_variable = {.env = env, .n_env = 1};
    assert_build_refused(policy, &long_variable, &program, ERR_INVALID, "env", "at most 131071 bytes each");
    big[100000] = '\0';
    char *many[11];
    for (size_t i = 0; i < ARRAY_SIZE(many); i++) {
        many[i] = big;
    }
    const struct job arguments = {.args = many, .n_args = ARRAY_SIZE(many)};
    assert_build_refused(policy, &arguments, &program, ERR_INVALID, "args", "1048576 bytes in all");
    char names[11][2];
    struct job_env variables[11];
    for (size_t i = 0; i < ARRAY_SIZE(variables); i++) {
        names[i][0] = (char)('A' + i);
        names[i][1] = '\0';
        variables[i] = (struct job_env){names[i], big};
    }
    const struct job environment = {.env = variables, .n_env = ARRAY_SIZE(variables)};
    assert_build_refused(policy, &environment, &program, ERR_INVALID, "env", "1048576 bytes in all");
    const struct job fits = {.args = many, .n_args = 10};
    CLEANUP(plan_freep) struct jail_plan *plan = build(policy, &server, &fits, &program);
    assert_int_equal(find(plan, JAIL_STEP_EXEC, 0)->exec.argc, 11);
}

static void test_files_need_a_place(void **state)
{
    (void)state;
    CLEANUP(policy_freep)
    struct policy *policy = compile("name: 'test' mount { destination: '/tmp' scratch { directory: TMP } } "
                                    "working_directory: '/tmp'" OPEN);
    char path[] = "/bin/true", name[] = "a.txt";
    char *argv[] = {path};
    struct job_file file = {.path = name, .size = 3};
    const struct policy_program program = {.argv = argv, .n_argv = 1};
    const struct job job = {.files = &file, .n_files = 1};
    assert_build_refused(policy, &job, &program, ERR_INVALID, "files",
                         "policy test has no scratch directory to put files into");
}

/* Two plans of one policy do not share what they grow. */
static void test_plans_are_independent(void **state)
{
    (void)state;
    CLEANUP(policy_freep) struct policy *policy = compile(LEAST);
    const struct job job = {0};
    CLEANUP(plan_freep) struct jail_plan *one = build_true(policy, &server, &job);
    CLEANUP(plan_freep) struct jail_plan *two = build_true(policy, &without_cgroup, &job);
    CLEANUP(plan_freep) struct jail_plan *three = build_true(policy, &server, &job);
    CLEANUP(buf_free) struct buf first = BUF_INIT;
    CLEANUP(buf_free) struct buf third = BUF_INIT;
    jail_plan_print(one, &first);
    jail_plan_print(three, &third);
    assert_string_equal(first.data, third.data);
    assert_int_equal(two->n_steps, one->n_steps + 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_runtime),
        cmocka_unit_test(test_environment),
        cmocka_unit_test(test_session),
        cmocka_unit_test(test_binds),
        cmocka_unit_test(test_binds_that_will_not_do),
        cmocka_unit_test(test_limits_reach_the_plan),
        cmocka_unit_test(test_rlimits),
        cmocka_unit_test(test_default_rlimits),
        cmocka_unit_test(test_capabilities),
        cmocka_unit_test(test_namespaces),
        cmocka_unit_test(test_commands),
        cmocka_unit_test(test_programs_refused),
        cmocka_unit_test(test_wishes_refused),
        cmocka_unit_test(test_files_need_a_place),
        cmocka_unit_test(test_plans_are_independent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
