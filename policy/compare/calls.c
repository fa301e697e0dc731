/* What the filters of two policies answer differently, as few rows as say it. Runs on the command line.
 *
 * The compiled filters are asked, not the rules: each system call that has a number, with each combination of
 * the values that any condition of either policy tells apart (policy/compare/values.c). */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "config/policy/constants.h"
#include "config/policy/policy_file.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "policy/compare/compare_internal.h"
#include "policy/compare/values.h"
#include "policy/compiled.h"
#include "policy/filter/conditions.h"
#include "policy/filter/names.h"
#include "policy/policy.h"

/* Above all numbers of all architectures; the last one stands for those that are no calls. */
#define NUMBERS_END 1024

/* Answers of both policies to one call, by combination of its values. */
struct question {
    const struct policy *policies[2];
    int nr;
    char name[64];
    struct call_values values;
    struct policy_answer (*answers)[2];
    struct policy_differences *differences;
};

bool policy_answer_allows(struct policy_answer answer)
{
    return answer.action == ACTION_ALLOW || answer.action == ACTION_LOG || answer.action == ACTION_COUNT;
}

static void question_clear(struct question *question)
{
    call_values_clear(&question->values);
    free(question->answers);
}

static bool same_answer(const struct policy_answer *a, const struct policy_answer *b)
{
    return a->action == b->action && a->error == b->error;
}

static int ask(struct question *question, struct err *reterr)
{
    int r = call_values_find(question->policies, 2, question->nr, question->name, NULL, 0, &question->values,
                             reterr);
    if (r < 0) {
        return r;
    }
    question->answers = calloc(question->values.n, sizeof question->answers[0]);
    if (!question->answers) {
        return err_errno(reterr, ENOMEM, "comparing policies");
    }
    for (size_t i = 0; i < question->values.n; i++) {
        uint64_t arguments[SECCOMP_ARGS];
        call_values_at(&question->values, i, arguments);
        for (size_t p = 0; p < 2; p++) {
            question->answers[i][p] = policy_answer(question->policies[p], question->nr, arguments);
        }
    }
    return 0;
}

static int add_row(struct question *question, const struct policy_answer answers[2], const struct buf *words)
{
    CLEANUP(buf_free) struct buf a = BUF_INIT;
    CLEANUP(buf_free) struct buf b = BUF_INIT;
    policy_answer_print(answers[0], &a);
    policy_answer_print(answers[1], &b);
    const struct policy_difference row = {
        .section = POLICY_SECTION_CALLS,
        .name = question->name,
        .arguments = words->len > 0 ? words->data : NULL,
        .a = a.data,
        .b = b.data,
        .a_allows = policy_answer_allows(answers[0]),
        .b_allows = policy_answer_allows(answers[1]),
    };
    return a.failed || b.failed || words->failed ? -ENOMEM : differences_add(question->differences, &row);
}

static bool same_answers(const struct question *question, size_t one, size_t other, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (!same_answer(&question->answers[one + i][0], &question->answers[other + i][0]) ||
            !same_answer(&question->answers[one + i][1], &question->answers[other + i][1])) {
            return false;
        }
    }
    return true;
}

static bool any_difference(const struct question *question, size_t first, size_t n)
{
    for (size_t i = first; i < first + n; i++) {
        if (!same_answer(&question->answers[i][0], &question->answers[i][1])) {
            return true;
        }
    }
    return false;
}

static int describe(struct question *question, size_t argument, size_t first, size_t n,
                    const struct buf *words);

/* What the table of constants calls options are those of SOL_SOCKET alone. */
static void print_classes(const struct argument_values *values, const bool *chosen, const struct buf *words,
                          struct buf *ret)
{
    struct argument_values plain = *values;
    struct named_argument argument = {0};
    const struct named_argument *named = values->argument;
    bool option = named && named->kind && strcmp(named->kind, "sockopt") == 0;
    if (option && (words->len == 0 || strcmp(words->data, "level SOL_SOCKET") != 0)) {
        argument = *named;
        argument.kind = NULL;
        plain.argument = &argument;
    }
    argument_values_print(&plain, chosen, ret);
}

/* The classes of an argument whose answers, with all that follow, are those of class `like`. `n`: answers of
 * one class. */
static int describe_like(struct question *question, size_t argument, size_t first, size_t n, size_t like,
                         bool *told, const struct buf *words)
{
    const struct argument_values *values = &question->values.arguments[argument];
    CLEANUP(freep) bool *chosen = calloc(values->n, sizeof *chosen);
    CLEANUP(buf_free) struct buf more = BUF_INIT;
    size_t n_chosen = 0;
    if (!chosen) {
        return -ENOMEM;
    }
    for (size_t i = like; i < values->n; i++) {
        chosen[i] = !told[i] && same_answers(question, first + like * n, first + i * n, n);
        told[i] |= chosen[i];
        n_chosen += chosen[i];
    }
    buf_puts(&more, words->len > 0 ? words->data : "");
    if (n_chosen < values->n) {
        buf_puts(&more, more.len > 0 ? ", " : "");
        print_classes(values, chosen, words, &more);
    }
    return describe(question, argument + 1, first + like * n, n, &more);
}

/* The `n` answers from `first` on differ in the arguments from `argument` on; `words` tell those before. */
static int describe(struct question *question, size_t argument, size_t first, size_t n,
                    const struct buf *words)
{
    if (!any_difference(question, first, n)) {
        return 0;
    }
    if (argument == SECCOMP_ARGS) {
        return add_row(question, question->answers[first], words);
    }
    size_t classes = question->values.arguments[argument].n;
    CLEANUP(freep) bool *told = calloc(classes, sizeof *told);
    int r = told ? 0 : -ENOMEM;
    for (size_t i = 0; r == 0 && i < classes; i++) {
        r = told[i] ? 0 : describe_like(question, argument, first, n / classes, i, told, words);
    }
    return r;
}

static int compare_call(struct question *question, struct err *reterr)
{
    const struct buf nothing = BUF_INIT;
    int r = ask(question, reterr);
    if (r < 0) {
        return r;
    }
    return describe(question, 0, 0, question->values.n, &nothing) < 0
               ? err_errno(reterr, ENOMEM, "comparing policies")
               : 0;
}

int compare_calls(const struct policy *a, const struct policy *b, struct policy_differences *ret,
                  struct err *reterr)
{
    int r = 0;
    for (int nr = 0; r == 0 && nr < NUMBERS_END; nr++) {
        CLEANUP(question_clear) struct question question = {.policies = {a, b}, .nr = nr, .differences = ret};
        policy_syscall_name(policy_native_arch(), nr, question.name, sizeof question.name);
        bool named = policy_syscall_number(question.name, NULL) == nr;
        if (!named && nr < NUMBERS_END - 1) {
            continue;
        }
        if (!named) {
            snprintf(question.name, sizeof question.name, "any other number");
        }
        r = compare_call(&question, reterr);
    }
    return r;
}
