/* config/policy/policy_test.c: what a file of tests says, and what is wrong with it at its place. */
#include "config/policy/policy_test.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "jail/base/cleanup.h"
#include "jail/base/err.h"

static void policy_test_freep(struct policy_test **test)
{
    policy_test_free(*test);
}

/* A file in a directory of its own. */
struct place {
    char directory[32], path[64];
};

static int set_up(void **state)
{
    struct place *place = calloc(1, sizeof *place);
    assert_non_null(place);
    snprintf(place->directory, sizeof place->directory, "/tmp/immure-test.XXXXXX");
    assert_non_null(mkdtemp(place->directory));
    snprintf(place->path, sizeof place->path, "%s/test.textproto", place->directory);
    *state = place;
    return 0;
}

static int tear_down(void **state)
{
    struct place *place = *state;
    unlink(place->path);
    rmdir(place->directory);
    free(place);
    return 0;
}

static int load(const struct place *place, const char *text, struct policy_test **ret, struct err *reterr)
{
    FILE *file = fopen(place->path, "we");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
    return policy_test_load(place->path, ret, reterr);
}

static struct policy_test *loaded(const struct place *place, const char *text)
{
    struct policy_test *test = NULL;
    struct err err = {0};
    if (load(place, text, &test, &err) < 0) {
        fail_msg("not loaded: %s: %s", err.item, err.text);
    }
    return test;
}

/* `at`: "LINE:COLUMN". */
static void assert_refused(const struct place *place, const char *text, const char *at, const char *words)
{
    struct policy_test *test = NULL;
    struct err err = {0};
    assert_true(load(place, text, &test, &err) < 0);
    assert_int_equal(err.kind, ERR_CONFIG);
    assert_string_equal(err.text, words);
    assert_int_equal(strncmp(err.item, place->path, strlen(place->path)), 0);
    assert_string_equal(err.item + strlen(place->path) + (*at != '\0'), at);
}

static void test_calls(void **state)
{
    CLEANUP(policy_test_freep)
    struct policy_test *test =
        loaded(*state, "policy: \"python\"\n"
                       "refuse { call: [clone, unshare] arg: 'CLONE_NEWUSER|CLONE_NEWNET' }\n"
                       "refuse { call: socket arg: [SOCK_RAW, 'family=AF_INET'] answer: ENOSYS }\n"
                       "allow { call: '@basic-io' }\n"
                       "allow { call: ioctl arg: '2=0x10' }\n");
    assert_string_equal(test->policy, "python");
    assert_int_equal(test->n_refuse, 2);
    assert_int_equal(test->n_allow, 2);
    const struct policy_test_call *call = &test->refuse[0];
    assert_int_equal(call->n_calls, 2);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(call->values[i].number, 0);
        assert_int_equal(call->values[i].value, 0x50000000);
    }
    assert_null(call->answer);
    assert_int_equal(call->at.line, 2);
    call = &test->refuse[1];
    assert_int_equal(call->values[0].number, 1);
    assert_int_equal(call->values[0].value, SOCK_RAW);
    assert_int_equal(call->values[1].number, 0);
    assert_int_equal(call->values[1].value, AF_INET);
    assert_false(call->values[1].exact);
    assert_string_equal(call->answer, "ENOSYS");
    assert_int_equal(test->allow[0].n_arguments, 0);
    assert_int_equal(test->allow[1].values[0].number, 2);
    assert_int_equal(test->allow[1].values[0].value, 16);
    assert_true(test->allow[1].values[0].exact);
}

static void test_programs(void **state)
{
    CLEANUP(policy_test_freep)
    struct policy_test *test = loaded(
        *state, "policy: 'python'\n"
                "run { argv: ['a', 'b'] stdin: 'x\\0y' file { name: 'f' content: 'z' } file { name: 'g' }\n"
                "  env: 'A=B=C' timeout_ms: 2s memory_bytes: 1MiB\n"
                "  expect { status: TIMEOUT stdout: '' stderr_has: 'e' denied: [mount, bpf] } }\n"
                "run { name: 'n' argv: 'a' expect { exit_code: 0 denied: none } }\n"
                "run { argv: 'a' expect { signal: SIGSYS denied: '*' } }\n"
                "run { argv: 'a' }\n");
    assert_int_equal(test->n_runs, 4);
    const struct policy_test_run *run = &test->runs[0];
    assert_int_equal(run->n_argv, 2);
    assert_int_equal(run->stdin_size, 3);
    assert_memory_equal(run->stdin_data, "x\0y", 3);
    assert_string_equal(run->files[0].name, "f");
    assert_int_equal(run->files[0].size, 1);
    assert_int_equal(run->files[1].size, 0);
    assert_string_equal(run->env[0], "A=B=C");
    assert_int_equal(run->timeout_ms, 2000);
    assert_int_equal(run->memory_bytes, 1 << 20);
    assert_int_equal(run->expect.has_status, true);
    assert_int_equal(run->expect.status, JOB_TIMEOUT);
    assert_int_equal(run->expect.has_exit_code, false);
    assert_non_null(run->expect.stdout_is);
    assert_int_equal(run->expect.stdout_size, 0);
    assert_null(run->expect.stderr_is);
    assert_int_equal(run->expect.n_stderr_has, 1);
    assert_int_equal(run->expect.n_denied, 2);
    run = &test->runs[1];
    assert_string_equal(run->name, "n");
    assert_int_equal(run->expect.has_exit_code, true);
    assert_int_equal(run->expect.n_denied, 0);
    assert_false(run->expect.any_denied);
    assert_string_equal(test->runs[2].expect.signal, "SIGSYS");
    assert_true(test->runs[2].expect.any_denied);
    assert_int_equal(test->runs[2].expect.n_denied, 0);
    assert_int_equal(test->runs[3].expect.n_denied, 0);
}

/* A file is looked for from where the tests lie; a name, and an absolute path, are what they are. */
static void test_which_policy(void **state)
{
    const struct place *place = *state;
    char text[128], path[128];
    const struct {
        const char *policy, *before, *found;
    } rows[] = {
        {"python", "", "python"},
        {"mine.textproto", place->directory, "/mine.textproto"},
        {"../mine.textproto", place->directory, "/../mine.textproto"},
        {"/etc/mine.textproto", "", "/etc/mine.textproto"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        snprintf(text, sizeof text, "policy: '%s' refuse { call: mount }", rows[i].policy);
        snprintf(path, sizeof path, "%s%s", rows[i].before, rows[i].found);
        CLEANUP(policy_test_freep) struct policy_test *test = loaded(place, text);
        assert_string_equal(test->policy, path);
    }
}

#define POLICY "policy: 'python'\n"

static void test_refused(void **state)
{
    static const struct {
        const char *text, *at, *words;
    } rows[] = {
        {POLICY, "", "has neither refuse nor allow nor run: nothing would be tested"},
        {"refuse { call: mount }", "1:23", "required field \"policy\" is missing"},
        {POLICY "refuze { call: mount }", "2:1", "PolicyTest has no field \"refuze\"; did you mean refuse?"},
        {POLICY "refuse { arg: 1 }", "2:8", "refuse[0].call: is missing"},
        {POLICY "allow { call: clone arg: CLONE_NEWUSR }", "2:26",
         "allow[0].arg[0]: \"CLONE_NEWUSR\" is no constant of an argument of clone; did you mean "
         "CLONE_NEWUSER?"},
        {POLICY "allow { call: clone arg: 17 }", "2:26",
         "allow[0].arg[0]: 17: of which argument? \"0=17\" is of the first one"},
        {POLICY "allow { call: clone arg: 'flag=17' }", "2:26",
         "allow[0].arg[0]: \"flag\" is not a known argument of clone; did you mean flags?; a number, 0 to 5, "
         "always is"},
        {POLICY "allow { call: socket arg: [AF_UNIX, '0=1'] }", "2:37",
         "allow[0].arg[1]: is the same argument as \"AF_UNIX\""},
        {POLICY "allow { call: socket arg: 'family=0x100000000' }", "2:27",
         "allow[0].arg[0]: 0x100000000 has more bits than the kernel reads"},
        {POLICY "refuse { call: '@mount' arg: '0=1' }", "2:30",
         "refuse[0].arg[0]: goes with system calls, not with sets"},
        {POLICY "run { name: 'x' }", "2:5", "run[0].argv: is missing"},
        {POLICY "run { argv: 'x' env: 'A' }", "2:22", "run[0].env[0]: \"A\" is not of the form NAME=VALUE"},
        {POLICY "run { argv: 'x' timeout_ms: 0 }", "2:29", "run[0].timeout_ms: is 0"},
        {POLICY "run { argv: 'x' expect { exit_code: 256 } }", "2:37",
         "run[0].expect.exit_code: must be 0 to 255, not 256"},
        {POLICY "run { argv: 'x' expect { signal: SIGKIL } }", "2:34",
         "run[0].expect.signal: there is no signal \"SIGKIL\"; did you mean SIGKILL?"},
        {POLICY "run { argv: 'x' expect { signal: SIGKILL exit_code: 0 } }", "2:53",
         "run[0].expect.exit_code: a signal leaves none; take one of both away"},
        {POLICY "run { argv: 'x' expect { denied: [none, mount] } }", "2:35",
         "run[0].expect.denied[0]: \"none\" goes with nothing else"},
        {POLICY "run { argv: 'x' expect { stdout_has: ['a', ''] } }", "2:44",
         "run[0].expect.stdout_has[1]: is empty: every output has it"},
        {POLICY "run { argv: 'x' expect { stderr_has: '' } }", "2:38",
         "run[0].expect.stderr_has[0]: is empty: every output has it"},
        {POLICY "run { argv: 'x' expect { status: TIMEOT } }", "2:34",
         "run[0].expect.status: Status has no value TIMEOT; did you mean TIMEOUT?"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        assert_refused(*state, rows[i].text, rows[i].at, rows[i].words);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_calls, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_programs, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_which_policy, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_refused, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
