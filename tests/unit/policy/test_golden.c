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
#include <linux/filter.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "config/format/digest.h"
#include "config/server/config.h"
#include "config/shipped.h"
#include "jail/base/io.h"
#include "policy/compiled.h"
#include "jail/base/bpf_run.h"
#include "policy/filter/names.h"
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
    {"command-plain", "command", &plain_job, true, true},
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

#ifdef __x86_64__
#define CALLS_END 470

struct digest_of_answers {
    const struct policy *policy;
    struct buf answers;
};

/* There are 16 resources; what is said about others is nobody's concern, as the kernel does nothing. */
static bool is_no_resource(int nr, const uint64_t arguments[6])
{
    return (nr == policy_syscall_number("prlimit64", NULL) && arguments[1] > 15) ||
           (nr == policy_syscall_number("setrlimit", NULL) && arguments[0] > 15);
}

static void ask(struct digest_of_answers *all, int nr, const uint64_t arguments[6])
{
    if (is_no_resource(nr, arguments)) {
        return;
    }
    struct seccomp_data data = {.nr = nr, .arch = policy_native_arch()};
    memcpy(data.args, arguments, sizeof data.args);
    uint32_t answer = bpf_run(all->policy->filter.instructions, all->policy->filter.length, &data);
    buf_append(&all->answers, &answer, sizeof answer);
}

/* Each call with every value in each of its arguments, then with what some calls look at together. */
static void ask_everything(struct digest_of_answers *all)
{
    static const uint64_t values[] = {
        0x5401,     0x540e,     0x540f,     0x5410,     0x5412,    0x5413,  0x541b, 0x541c,  0x5421,
        0x5450,     0x5451,     0x5452,     0x8910,     0x8912,    0x8913,  1000,   1031,    1032,
        1033,       1024,       1026,       010000,     010644,    020000,  060666, 0100644, 0140000,
        0x53564d41, 0x40049409, 0x7e028000, 0x01200011, 0x3d0f00,  0x10011, 0x4111, 65534,   65536,
        0x0040000,  0x00400000, 0xfffffffe, 0xffffffff, 0x7fffffff};
    static const char *const together[] = {"socket",    "socketpair", "prlimit64", "setsockopt",
                                           "setresuid", "fcntl",      "mknodat",   "ioctl"};
    static const uint64_t few[] = {0,  1,  2,  3,  4,     5,       6,    7,         9,
                                   10, 16, 17, 41, 0x801, 0x80002, 1000, 0xffffffff};
    for (int nr = 0; nr < CALLS_END; nr++) {
        for (size_t arg = 0; arg < 6; arg++) {
            for (uint64_t i = 0; i < 128 + 32 + ARRAY_SIZE(values); i++) {
                uint64_t arguments[6] = {0};
                arguments[arg] = i < 128 ? i : i < 160 ? 1ull << (i - 128) : values[i - 160];
                ask(all, nr, arguments);
            }
        }
    }
    for (size_t i = 0; i < ARRAY_SIZE(together); i++) {
        for (size_t n = 0; n < ARRAY_SIZE(few) * ARRAY_SIZE(few) * ARRAY_SIZE(few); n++) {
            const uint64_t arguments[6] = {few[n % ARRAY_SIZE(few)],
                                           few[n / ARRAY_SIZE(few) % ARRAY_SIZE(few)],
                                           few[n / ARRAY_SIZE(few) / ARRAY_SIZE(few)]};
            ask(all, policy_syscall_number(together[i], NULL), arguments);
        }
    }
}

/* What the shipped filters answer to half a million calls, as digests: whichever way the policies are written
 * and libseccomp compiles them. */
static void test_answers(void **state)
{
    (void)state;
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    for (const struct shipped_file *file = shipped_policies(); file->name; file++) {
        CLEANUP(policy_freep) struct policy *policy = resolve(file->name);
        struct digest_of_answers all = {.policy = policy, .answers = BUF_INIT};
        ask_everything(&all);
        assert_false(all.answers.failed);
        char sha256[SHA256_HEX];
        sha256_hex_of(all.answers.data, all.answers.len, sha256);
        buf_free(&all.answers);
        buf_printf(&text, "%s %s\n", file->name, sha256);
    }
    compare("answers", &text);
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
        cmocka_unit_test(test_answers),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
