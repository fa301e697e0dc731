/* `refuse` and `allow` of a test: the compiled filter is asked, and nothing is run. Runs on the command line.
 *
 * What must hold: a test passes only if no call that it speaks about is answered otherwise. So an argument
 * that is not given takes every value that the policy tells apart (policy/compare/values.c). One that is
 * refused takes, beside what is given, every other flag, and all bits that the kernel does not read. */
#include "policy/compare/test_call.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

#include "config/policy/constants.h"
#include "config/policy/policy_file.h"
#include "config/policy/policy_test.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "policy/compare/compare.h"
#include "policy/compare/values.h"
#include "policy/filter/conditions.h"
#include "policy/filter/errno_names.h"
#include "policy/filter/names.h"
#include "policy/filter/syscall_sets.h"
#include "policy/policy.h"

/* One call with all values of its arguments that are tried. */
struct trial {
    const struct policy *policy;
    const struct policy_test_call *test;
    bool allow;
    const char *name;
    int nr;
    struct call_values values;
    bool given[SECCOMP_ARGS]; /* by the test; else every value that matters */
};

/* ---- What is said ---- */

static bool is_answer(const char *word)
{
    static const char *const words[] = {"ALLOW", "LOG", "COUNT", "NOTIFY", "KILL_PROCESS"};
    for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
        if (strcmp(words[i], word) == 0) {
            return true;
        }
    }
    return policy_errno_number(word) != 0;
}

static int fail_at(const struct policy_test *test, const struct source_position *at, struct err *reterr,
                   const char *field, const char *value, const char *words)
{
    char place[SOURCE_PLACE_TEXT_MAX];
    return err_set(reterr, ERR_CONFIG, EINVAL, source_place_text(test->origin, *at, place), "%s: %.60s: %s",
                   field, value, words);
}

static bool allows_by_word(const char *word)
{
    return strcmp(word, "ALLOW") == 0 || strcmp(word, "LOG") == 0 || strcmp(word, "COUNT") == 0;
}

static int check_answer(const struct policy_test *test, const struct policy_test_call *call, bool allow,
                        struct err *reterr)
{
    char words[POLICY_NO_SUCH_MAX];
    if (!call->answer) {
        return 0;
    }
    if (!is_answer(call->answer)) {
        return fail_at(test, &call->answer_at, reterr, "answer", call->answer,
                       policy_no_such("answer", policy_errno_did_you_mean(call->answer), words));
    }
    return allows_by_word(call->answer) == allow
               ? 0
               : fail_at(test, &call->answer_at, reterr, "answer", call->answer,
                         allow ? "is no way to allow a call" : "is no way to refuse a call");
}

static int check_name(const struct policy_test *test, const struct source_position *at, const char *field,
                      const char *name, struct err *reterr)
{
    bool set = name[0] == '@', known = set && syscall_set_find(name);
    char words[POLICY_NO_SUCH_MAX];
    if (!set) {
        policy_syscall_number(name, &known);
    }
    return known
               ? 0
               : fail_at(test, at, reterr, field, name,
                         policy_no_such(set ? "set" : "system call", syscall_set_did_you_mean(name), words));
}

static int check_calls(const struct policy_test *test, const struct policy_test_call *calls, size_t n,
                       bool allow, struct err *reterr)
{
    int r = 0;
    for (size_t i = 0; r == 0 && i < n; i++) {
        r = check_answer(test, &calls[i], allow, reterr);
        for (size_t k = 0; r == 0 && k < calls[i].n_calls; k++) {
            r = check_name(test, &calls[i].at, "call", calls[i].calls[k], reterr);
        }
    }
    return r;
}

int policy_test_check(const struct policy_test *test, struct err *reterr)
{
    int r = check_calls(test, test->refuse, test->n_refuse, false, reterr);
    r = r < 0 ? r : check_calls(test, test->allow, test->n_allow, true, reterr);
    for (size_t i = 0; r == 0 && i < test->n_runs; i++) {
        const struct policy_test_expect *expect = &test->runs[i].expect;
        for (size_t k = 0; r == 0 && k < expect->n_denied; k++) {
            r = expect->denied[k][0] == '@'
                    ? fail_at(test, &test->runs[i].at, reterr, "denied", expect->denied[k],
                              "is a set, which no verdict names; name its calls")
                    : check_name(test, &test->runs[i].at, "denied", expect->denied[k], reterr);
        }
    }
    return r;
}

static bool is_as_said(const struct trial *trial, struct policy_answer answer)
{
    CLEANUP(buf_free) struct buf words = BUF_INIT;
    if (policy_answer_allows(answer) != trial->allow || !trial->test->answer) {
        return policy_answer_allows(answer) == trial->allow;
    }
    if (answer.action == ACTION_ERRNO) {
        return policy_errno_number(trial->test->answer) == answer.error;
    }
    policy_answer_print(answer, &words);
    return !words.failed && strcmp(words.data, trial->test->answer) == 0;
}

/* ---- Calls ---- */

static void put_argument(const struct trial *trial, uint32_t number, uint64_t value, struct buf *ret)
{
    const struct named_argument *argument = argument_at(trial->name, number);
    buf_puts(ret, ret->len > 0 && ret->data[ret->len - 1] != '(' ? ", " : "");
    if (argument) {
        buf_printf(ret, "%s ", argument->name);
    } else {
        buf_printf(ret, "argument %" PRIu32 " ", number);
    }
    argument_value_print(argument, value, ret);
}

/* "socket(family AF_UNIX, type SOCK_STREAM) is answered NOTIFY". */
static void put_finding(const struct trial *trial, const uint64_t arguments[SECCOMP_ARGS],
                        struct policy_answer answer, struct buf *ret)
{
    CLEANUP(buf_free) struct buf call = BUF_INIT;
    buf_printf(&call, "%s(", trial->name);
    for (uint32_t i = 0; i < SECCOMP_ARGS; i++) {
        if (trial->given[i] || trial->values.arguments[i].n > 1) {
            put_argument(trial, i, arguments[i], &call);
        }
    }
    buf_printf(ret, "%s) is answered ", call.failed ? trial->name : call.data);
    policy_answer_print(answer, ret);
}

/* What is said of a given argument, as a condition. Flags, and the type of a socket or a file, are refused
 * with any others; a call that is allowed is made with that value alone. */
static struct seccomp_condition condition_of(const struct trial *trial, const char *name,
                                             const struct policy_test_value *value)
{
    const struct named_argument *argument = argument_at(name, value->number);
    const char *kind = argument && argument->kind && !value->exact ? argument->kind : "";
    uint64_t field = strcmp(kind, "type") == 0 ? SOCK_TYPE_MASK : strcmp(kind, "mode") == 0 ? S_IFMT : 0;
    uint64_t mask = UINT64_MAX;
    if (!trial->allow && (field != 0 || constant_is_flag(kind))) {
        mask = value->value | (value->value & field ? field : 0);
    } else if (!trial->allow && argument && argument->bits < 64) {
        mask = (UINT64_C(1) << argument->bits) - 1;
    }
    return (struct seccomp_condition){
        .arg = value->number, .op = OP_MASKED_EQ, .mask = mask, .value = value->value & mask};
}

/* 1: some call is answered otherwise. What no architecture but others has is as it has to be. */
static int test_one(const struct trial *like, const char *name, const struct seccomp_condition *given,
                    size_t n, struct buf *ret_why, struct err *reterr)
{
    struct trial trial = *like;
    trial.name = name;
    trial.nr = policy_syscall_number(name, NULL);
    if (trial.nr < 0) {
        return 0;
    }
    int r = call_values_find(&trial.policy, 1, trial.nr, name, given, n, &trial.values, reterr);
    for (size_t i = 0; i < n; i++) {
        trial.given[given[i].arg] = true;
    }
    for (size_t i = 0; r == 0 && i < trial.values.n; i++) {
        uint64_t arguments[SECCOMP_ARGS];
        call_values_at(&trial.values, i, arguments);
        struct policy_answer answer = policy_answer(trial.policy, trial.nr, arguments);
        if (!is_as_said(&trial, answer)) {
            put_finding(&trial, arguments, answer, ret_why);
            r = 1;
        }
    }
    call_values_clear(&trial.values);
    return r;
}

/* A call that the set has with some arguments alone is allowed with the least that its conditions admit. A
 * rule that refuses a set refuses its calls whole, but for those of a set that is about these arguments. */
static int test_set(const struct trial *like, const struct syscall_row *set, struct buf *ret_why,
                    struct err *reterr)
{
    bool whole = !like->allow && set->kind != SET_PARTIAL;
    int r = 0;
    for (const struct syscall_row *row = syscall_set_next(set); row && r == 0; row = syscall_set_next(row)) {
        struct seccomp_condition given[SYSCALL_ROW_CONDITIONS];
        for (size_t i = 0; i < row->n_conditions; i++) {
            given[i] = row->conditions[i];
            given[i].op = like->allow ? OP_EQ : given[i].op;
        }
        r = test_one(like, row->name, given, whole ? 0 : row->n_conditions, ret_why, reterr);
    }
    return r;
}

/* All bits set are no flags: personality() then only tells. */
static const struct seccomp_condition sets_personality = {
    .op = OP_MASKED_NE, .value = UINT32_MAX, .mask = UINT32_MAX};

static int test_call(const struct trial *like, size_t index, struct buf *ret_why, struct err *reterr)
{
    const struct policy_test_call *call = like->test;
    const char *name = call->calls[index];
    struct seccomp_condition given[SECCOMP_ARGS + 1];
    size_t n = 0;
    for (size_t i = 0; i < call->n_arguments; i++) {
        const struct policy_test_value *value = &call->values[index * call->n_arguments + i];
        given[n++] = condition_of(like, name, value);
        if (!like->allow && !value->exact && value->number == 0 && strcmp(name, "personality") == 0) {
            given[n++] = sets_personality;
        }
    }
    return test_one(like, name, given, n, ret_why, reterr);
}

static void put_name(const struct policy_test_call *call, struct buf *ret)
{
    for (size_t i = 0; i < call->n_calls; i++) {
        buf_printf(ret, "%s%s", i > 0 ? ", " : "", call->calls[i]);
    }
    for (size_t i = 0; i < call->n_arguments; i++) {
        buf_printf(ret, "%s%s", i > 0 ? ", " : "(", call->arguments[i]);
    }
    buf_puts(ret, call->n_arguments > 0 ? ")" : "");
    if (call->answer) {
        buf_printf(ret, " with %s", call->answer);
    }
}

int policy_test_call(const struct policy *policy, const struct policy_test_call *call, bool allow,
                     struct buf *ret_name, struct buf *ret_why, struct err *reterr)
{
    const struct trial like = {.policy = policy, .test = call, .allow = allow};
    int r = 0;
    put_name(call, ret_name);
    for (size_t i = 0; r == 0 && i < call->n_calls; i++) {
        const char *name = call->calls[i];
        r = name[0] == '@' ? test_set(&like, syscall_set_find(name), ret_why, reterr)
                           : test_call(&like, i, ret_why, reterr);
    }
    return r < 0 ? r : 0;
}
