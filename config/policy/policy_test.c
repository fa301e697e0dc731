/* Files of tests of policies: decoded, names of arguments and of their values looked up. Names of system
 * calls and of errors are policy/compare's to know. Runs on the command line. */
#include "config/policy/policy_test.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/format/bind.h"
#include "config/format/check.h"
#include "config/format/protofile.h"
#include "config/format/suggest.h"
#include "config/policy/constants.h"
#include "config/policy/policy_message.h"
#include "config/policy/policy_test.pb-c.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"

#define SIGNALS_END 32

#define SOME(as, type, message, own, number, theirs, ...)                                                    \
    BIND_SOME(as, struct type, Immure__##message, own, number, theirs, __VA_ARGS__)

static const struct bind_row call_rows[] = {
    SOME(BIND_TEXTS, policy_test_call, CallTest, calls, n_calls, call, ),
    SOME(BIND_TEXTS, policy_test_call, CallTest, arguments, n_arguments, arg, .most = 6),
    BIND(struct policy_test_call, Immure__CallTest, answer, answer),
};
static const struct bind_table call_table = {
    BIND_TABLE_OF(struct policy_test_call, immure__call_test__descriptor, call_rows)};

static const struct bind_row file_rows[] = {
    BIND(struct policy_test_file, Immure__InputFile, name, name, .least = 1),
    SOME(BIND_DATA, policy_test_file, InputFile, content, size, content, ),
};
static const struct bind_table file_table = {
    BIND_TABLE_OF(struct policy_test_file, immure__input_file__descriptor, file_rows)};

_Static_assert(IMMURE__EXPECT__STATUS__SUCCESS == JOB_SUCCESS + 1, "statuses differ");
_Static_assert(IMMURE__EXPECT__STATUS__EXECUTION_ERROR == JOB_EXECUTION_ERROR + 1, "statuses differ");
_Static_assert(IMMURE__EXPECT__STATUS__TIMEOUT == JOB_TIMEOUT + 1, "statuses differ");
_Static_assert(IMMURE__EXPECT__STATUS__OOM == JOB_OOM + 1, "statuses differ");

#define EXPECTED(as, own, number, theirs) SOME(as, policy_test_expect, Expect, own, number, theirs, )
static const struct bind_row expect_rows[] = {
    BIND_AS(BIND_UNSIGNED, struct policy_test_expect, Immure__Expect, status, status, .shift = 1, .least = 1,
            .most = 4, BIND_FLAG(struct policy_test_expect, has_status)),
    BIND(struct policy_test_expect, Immure__Expect, exit_code, exit_code, .most = 255,
         BIND_FLAG(struct policy_test_expect, has_exit_code)),
    BIND(struct policy_test_expect, Immure__Expect, signal, signal, .least = 1),
    EXPECTED(BIND_DATA, stdout_is, stdout_size, stdout),
    EXPECTED(BIND_DATA, stderr_is, stderr_size, stderr),
    EXPECTED(BIND_TEXTS, stdout_has, n_stdout_has, stdout_has),
    EXPECTED(BIND_TEXTS, stderr_has, n_stderr_has, stderr_has),
    EXPECTED(BIND_TEXTS, denied, n_denied, denied),
};
#undef EXPECTED
static const struct bind_table expect_table = {
    BIND_TABLE_OF(struct policy_test_expect, immure__expect__descriptor, expect_rows)};

#define RUN(own, ...) BIND(struct policy_test_run, Immure__RunTest, own, own, __VA_ARGS__)
static const struct bind_row run_rows[] = {
    RUN(name, .least = 1),
    SOME(BIND_TEXTS, policy_test_run, RunTest, argv, n_argv, argv, ),
    SOME(BIND_DATA, policy_test_run, RunTest, stdin_data, stdin_size, stdin, ),
    SOME(BIND_EACH, policy_test_run, RunTest, files, n_files, file, .table = &file_table,
         .most = JOB_FILES_MAX),
    SOME(BIND_TEXTS, policy_test_run, RunTest, env, n_env, env, .most = JOB_ENV_MAX),
    RUN(timeout_ms),
    RUN(memory_bytes),
    RUN(cpu_ms),
    RUN(pids),
    BIND_AS(BIND_ONE, struct policy_test_run, Immure__RunTest, expect, expect, .table = &expect_table),
};
#undef RUN
static const struct bind_table run_table = {
    BIND_TABLE_OF(struct policy_test_run, immure__run_test__descriptor, run_rows)};

static const struct bind_row test_rows[] = {
    BIND(struct policy_test, Immure__PolicyTest, policy, policy, .least = 1),
    SOME(BIND_EACH, policy_test, PolicyTest, refuse, n_refuse, refuse, .table = &call_table),
    SOME(BIND_EACH, policy_test, PolicyTest, allow, n_allow, allow, .table = &call_table),
    SOME(BIND_EACH, policy_test, PolicyTest, runs, n_runs, run, .table = &run_table),
};
#undef SOME
static const struct bind_table test_table = {
    BIND_TABLE_OF(struct policy_test, immure__policy_test__descriptor, test_rows)};

static void free_values(struct policy_test_call *calls, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        free(calls[i].values);
    }
}

void policy_test_free(struct policy_test *test)
{
    if (test) {
        free_values(test->refuse, test->n_refuse);
        free_values(test->allow, test->n_allow);
        free(test->origin);
        bind_clear(&test_table, test);
        free(test);
    }
}

static void policy_test_freep(struct policy_test **test)
{
    policy_test_free(*test);
}

/* ---- Calls ---- */

static bool constant_takes(const struct named_argument *argument, const char *text)
{
    uint64_t value;
    return argument->kind && constant_find(argument->kind, text, strcspn(text, "|"), &value);
}

/* The argument of the call that the text's first name is a constant of. */
static const struct named_argument *argument_of_constant(const char *call, const char *text)
{
    const struct named_argument *argument;
    for (size_t i = 0; (argument = argument_row(i)); i++) {
        if (strcmp(argument->call, call) == 0 && constant_takes(argument, text)) {
            return argument;
        }
    }
    return NULL;
}

static int fail_constant(struct checker *checker, const char *call, const char *text)
{
    char near[SUGGESTION_TEXT_MAX];
    const struct named_argument *argument;
    struct suggestion suggestion = SUGGESTION_FOR(text, strcspn(text, "|"));
    for (size_t i = 0; (argument = argument_row(i)); i++) {
        if (argument->kind && strcmp(argument->call, call) == 0) {
            constant_suggest(argument->kind, &suggestion);
        }
    }
    return text[0] >= '0' && text[0] <= '9'
               ? check_fail(checker, NULL, "%.60s: of which argument? \"0=%.60s\" is of the first one", text,
                            text)
               : check_fail(checker, NULL, "\"%.60s\" is no constant of an argument of %.40s%s", text, call,
                            suggestion_text(&suggestion, "", near));
}

static int fail_argument(struct checker *checker, const char *call, const char *name)
{
    char near[SUGGESTION_TEXT_MAX];
    struct suggestion suggestion = SUGGESTION_FOR(name, strlen(name));
    argument_suggest(call, &suggestion);
    return check_fail(checker, NULL,
                      "\"%.40s\" is not a known argument of %.40s%s; a number, 0 to 5, always is", name, call,
                      suggestion_text(&suggestion, "", near));
}

/* "CLONE_NEWUSER", "pid=0" or "2=0x5401" of one call. */
static int value_of(struct checker *checker, const char *call, const char *text,
                    struct policy_test_value *ret)
{
    const char *equals = strchr(text, '=');
    const struct named_argument *argument = equals ? NULL : argument_of_constant(call, text);
    if (!equals && !argument) {
        return fail_constant(checker, call, text);
    }
    uint32_t number = argument ? argument->number : 0;
    if (equals) {
        char name[32];
        snprintf(name, sizeof name, "%.*s", (int)(equals - text), text);
        argument = argument_find(call, name);
        bool digit = name[0] >= '0' && name[0] <= '5' && name[1] == '\0';
        if (!argument && !digit) {
            return fail_argument(checker, call, name);
        }
        number = argument ? argument->number : (uint32_t)(name[0] - '0');
        text = equals + 1;
    }
    ret->number = number;
    ret->exact = text[0] >= '0' && text[0] <= '9' && !strchr(text, '|');
    return policy_value_from_text(checker, argument, text, &ret->value);
}

static int values_of(struct checker *checker, struct policy_test_call *call, size_t index)
{
    struct policy_test_value *values = &call->values[index * call->n_arguments];
    for (size_t i = 0; i < call->n_arguments; i++) {
        size_t before = check_enter(checker, "arg", i);
        int r = value_of(checker, call->calls[index], call->arguments[i], &values[i]);
        for (size_t k = 0; r == 0 && k < i; k++) {
            if (values[k].number == values[i].number) {
                r = check_fail(checker, NULL, "is the same argument as \"%.60s\"", call->arguments[k]);
            }
        }
        check_leave(checker, before);
        if (r < 0) {
            return r;
        }
    }
    return 0;
}

static int check_call(struct checker *checker, struct policy_test_call *call)
{
    call->at = check_position(checker, NULL);
    call->answer_at = check_position(checker, "answer");
    if (call->n_calls == 0) {
        return check_fail(checker, "call", "is missing");
    }
    int r =
        check_new_array(checker, call->n_calls * call->n_arguments, sizeof call->values[0], &call->values);
    for (size_t i = 0; r == 0 && i < call->n_calls; i++) {
        if (call->calls[i][0] == '@' && call->n_arguments > 0) {
            check_enter(checker, "arg", 0);
            return check_fail(checker, NULL, "goes with system calls, not with sets");
        }
        r = values_of(checker, call, i);
    }
    return r;
}

static int check_calls(struct checker *checker, const char *field, struct policy_test_call *calls, size_t n)
{
    int r = 0;
    for (size_t i = 0; r == 0 && i < n; i++) {
        size_t before = check_enter(checker, field, i);
        r = check_call(checker, &calls[i]);
        check_leave(checker, before);
    }
    return r;
}

/* ---- Programs ---- */

static int check_signal(struct checker *checker, const char *name)
{
    char near[SUGGESTION_TEXT_MAX], names[SIGNALS_END][16];
    struct suggestion suggestion = SUGGESTION_FOR(name, strlen(name));
    for (int number = 1; number < SIGNALS_END; number++) {
        snprintf(names[number], sizeof names[number], "SIG%s", sigabbrev_np(number));
        if (strcmp(names[number], name) == 0) {
            return 0;
        }
        suggestion_offer(&suggestion, names[number]);
    }
    return check_fail(checker, "signal", "there is no signal \"%.40s\"%s", name,
                      suggestion_text(&suggestion, "", near));
}

/* "none" and "*" stand alone. */
static int check_denied(struct checker *checker, struct policy_test_expect *expect)
{
    for (size_t i = 0; i < expect->n_denied; i++) {
        bool none = strcmp(expect->denied[i], "none") == 0, any = strcmp(expect->denied[i], "*") == 0;
        if ((none || any) && expect->n_denied > 1) {
            check_enter(checker, "denied", i);
            return check_fail(checker, NULL, "\"%s\" goes with nothing else", expect->denied[i]);
        }
        expect->any_denied = any;
        if (none || any) {
            free(expect->denied[0]);
            expect->n_denied = 0;
        }
    }
    return 0;
}

/* An empty text is in every output. */
static int check_has(struct checker *checker, const char *field, char *const *texts, size_t n)
{
    int r = 0;
    for (size_t i = 0; r == 0 && i < n; i++) {
        size_t before = check_enter(checker, field, i);
        r = *texts[i] ? 0 : check_fail(checker, NULL, "is empty: every output has it");
        check_leave(checker, before);
    }
    return r;
}

static int check_expect(struct checker *checker, struct policy_test_expect *expect)
{
    size_t before = fieldpath_push(&checker->path, "expect");
    int r = expect->signal ? check_signal(checker, expect->signal) : 0;
    if (r == 0 && expect->signal && expect->has_exit_code) {
        r = check_fail(checker, "exit_code", "a signal leaves none; take one of both away");
    }
    r = r < 0 ? r : check_has(checker, "stdout_has", expect->stdout_has, expect->n_stdout_has);
    r = r < 0 ? r : check_has(checker, "stderr_has", expect->stderr_has, expect->n_stderr_has);
    r = r < 0 ? r : check_denied(checker, expect);
    check_leave(checker, before);
    return r;
}

static int check_run(struct checker *checker, struct policy_test_run *run)
{
    run->at = check_position(checker, NULL);
    if (run->n_argv == 0) {
        return check_fail(checker, "argv", "is missing");
    }
    for (size_t i = 0; i < run->n_env; i++) {
        const char *equals = strchr(run->env[i], '=');
        if (!equals || equals == run->env[i]) {
            check_enter(checker, "env", i);
            return check_fail(checker, NULL, "\"%.60s\" is not of the form NAME=VALUE", run->env[i]);
        }
    }
    return check_expect(checker, &run->expect);
}

/* A file's path from the directory of the file of tests; a name is a shipped policy's. */
static int find_policy(struct checker *checker, struct policy_test *test)
{
    const char *slash = strrchr(test->origin, '/');
    char *path = NULL;
    if ((!strchr(test->policy, '/') && !strchr(test->policy, '.')) || test->policy[0] == '/') {
        return 0;
    }
    int length = slash ? (int)(slash - test->origin) : 1;
    if (asprintf(&path, "%.*s/%s", length, slash ? test->origin : ".", test->policy) < 0) {
        return check_memory(checker);
    }
    free(test->policy);
    test->policy = path;
    return 0;
}

static int check_test(struct checker *checker, struct policy_test *test)
{
    test->policy_at = check_position(checker, "policy");
    int r = check_calls(checker, "refuse", test->refuse, test->n_refuse);
    r = r < 0 ? r : check_calls(checker, "allow", test->allow, test->n_allow);
    for (size_t i = 0; r == 0 && i < test->n_runs; i++) {
        size_t before = check_enter(checker, "run", i);
        r = check_run(checker, &test->runs[i]);
        check_leave(checker, before);
    }
    if (r == 0 && test->n_refuse + test->n_allow + test->n_runs == 0) {
        r = check_fail(checker, NULL, "has neither refuse nor allow nor run: nothing would be tested");
    }
    return r < 0 ? r : find_policy(checker, test);
}

int policy_test_load(const char *path, struct policy_test **ret, struct err *reterr)
{
    CLEANUP(buf_free) struct buf data = BUF_INIT;
    CLEANUP(source_free) struct source source = SOURCE_NAMED(path);
    CLEANUP(policy_test_freep) struct policy_test *test = calloc(1, sizeof *test);
    struct checker checker = {.source = &source, .reterr = reterr};
    ProtobufCMessage *message = NULL;
    int r = test ? protofile_read(path, &data, reterr) : check_memory(&checker);
    r = r < 0 ? r
              : protofile_decode(&immure__policy_test__descriptor, &source, data.data ? data.data : "",
                                 data.len, &message, reterr);
    if (r < 0) {
        return r;
    }
    r = check_copy(&checker, path, &test->origin);
    r = r < 0 ? r : bind_read_config(&test_table, message, &checker, test);
    r = r < 0 ? r : check_test(&checker, test);
    protobuf_c_message_free_unpacked(message, NULL);
    if (r == 0) {
        *ret = TAKE_PTR(test);
    }
    return r;
}
