/* Kafel's conditions, in C's words. Runs in the command line. A comparison of two arguments, or of what is no
 * plain mask, cannot be said by a filter of ours; the condition is then inexact. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "config/policy/constants.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "policy/import/clauses.h"
#include "policy/import/draft.h"
#include "policy/import/kafel.h"

#define DEPTH_MAX 24u

struct value {
    enum { NUMBER, ARGUMENT, TRUTH, OTHER } kind;
    uint64_t number; /* NUMBER; of ARGUMENT its mask */
    uint32_t arg;
    struct clauses *when; /* TRUTH */
};

static void value_clear(struct value *value)
{
    free(value->when);
    *value = (struct value){0};
}

/* Arguments of calls that config/policy/constants.c has none of, by the kernel's names. */
static const char *const argument_rows[][2] = {
    {"read", "fd buf count"},
    {"write", "fd buf count"},
    {"pread64", "fd buf count pos"},
    {"pwrite64", "fd buf count pos"},
    {"readv", "fd vec vlen"},
    {"writev", "fd vec vlen"},
    {"lseek", "fd offset whence"},
    {"close", "fd"},
    {"dup", "fildes"},
    {"dup2", "oldfd newfd"},
    {"dup3", "oldfd newfd flags"},
    {"open", "filename flags mode"},
    {"openat", "dfd filename flags mode"},
    {"openat2", "dfd filename how usize"},
    {"creat", "pathname mode"},
    {"stat", "filename statbuf"},
    {"lstat", "filename statbuf"},
    {"fstat", "fd statbuf"},
    {"newfstatat", "dfd filename statbuf flag"},
    {"access", "filename mode"},
    {"faccessat", "dfd filename mode"},
    {"mmap", "addr len prot flags fd off"},
    {"mprotect", "start len prot"},
    {"mremap", "addr old_len new_len flags new_addr"},
    {"madvise", "start len_in behavior"},
    {"ioctl", "fd cmd arg"},
    {"fcntl", "fd cmd arg"},
    {"clone", "clone_flags newsp parent_tidptr child_tidptr tls"},
    {"unshare", "unshare_flags"},
    {"setns", "fd flags"},
    {"socket", "family type protocol"},
    {"socketpair", "family type protocol usockvec"},
    {"setsockopt", "fd level optname optval optlen"},
    {"getsockopt", "fd level optname optval optlen"},
    {"bind", "fd umyaddr addrlen"},
    {"connect", "fd uservaddr addrlen"},
    {"sendto", "fd buff len flags addr addr_len"},
    {"recvfrom", "fd ubuf size flags addr addr_len"},
    {"sendmsg", "fd msg flags"},
    {"recvmsg", "fd msg flags"},
    {"kill", "pid sig"},
    {"tkill", "pid sig"},
    {"tgkill", "tgid pid sig"},
    {"prctl", "option arg2 arg3 arg4 arg5"},
    {"prlimit64", "pid resource new_rlim old_rlim"},
    {"setrlimit", "resource rlim"},
    {"getrlimit", "resource rlim"},
    {"personality", "personality"},
    {"futex", "uaddr op val utime uaddr2 val3"},
    {"execve", "filename argv envp"},
    {"exit", "error_code"},
    {"exit_group", "error_code"},
    {"ptrace", "request pid addr data"},
    {"memfd_create", "uname flags"},
    {"chmod", "filename mode"},
    {"fchmod", "fd mode"},
    {"umask", "mask"},
    {"mknod", "filename mode dev"},
    {"mknodat", "dfd filename mode dev"},
    {"clock_gettime", "which_clock tp"},
    {"clock_nanosleep", "which_clock flags rqtp rmtp"},
    {"rt_sigaction", "sig act oact sigsetsize"},
    {"getrandom", "buf count flags"},
    {"bpf", "cmd attr size"},
};

static bool find_in_words(const char *words, const char *name, size_t length, uint32_t *ret)
{
    for (*ret = 0; *words; ++*ret) {
        size_t n = strcspn(words, " ");
        if (n == length && memcmp(words, name, length) == 0) {
            return true;
        }
        words += n;
        words += strspn(words, " ");
    }
    return false;
}

/* By the name that the policy gives it, that of the kernel, that of the manual pages, or "arg0". */
static bool find_argument(struct kafel *kafel, uint32_t *ret)
{
    char name[32];
    for (size_t i = 0; i < kafel->n_arguments; i++) {
        if (kafel_is(kafel, kafel->arguments[i])) {
            *ret = (uint32_t)i;
            return true;
        }
    }
    if (kafel->n_arguments > 0 || kafel->length >= sizeof name) {
        return false;
    }
    for (size_t i = 0; i < ARRAY_SIZE(argument_rows); i++) {
        if (strcmp(argument_rows[i][0], kafel->call) == 0 &&
            find_in_words(argument_rows[i][1], kafel->token, kafel->length, ret)) {
            return true;
        }
    }
    memcpy(name, kafel->token, kafel->length);
    name[kafel->length] = '\0';
    const struct named_argument *argument = argument_find(kafel->call, name);
    *ret = argument ? argument->number : 0;
    return argument || find_in_words("arg0 arg1 arg2 arg3 arg4 arg5", kafel->token, kafel->length, ret);
}

static struct clauses *new_clauses(bool always)
{
    struct clauses *ret = malloc(sizeof *ret);
    if (ret) {
        clauses_set(ret, always);
    }
    return ret;
}

/* An argument alone is true where it is not 0. */
static int make_truth(struct kafel *kafel, struct value *value, struct err *reterr)
{
    if (value->kind == TRUTH) {
        return 0;
    }
    struct clauses *when = new_clauses(value->kind == NUMBER && value->number != 0);
    if (!when) {
        kafel->draft->failed = true;
        return err_errno(reterr, ENOMEM, "importing a policy");
    }
    if (value->kind == ARGUMENT) {
        struct seccomp_condition condition = {
            .arg = value->arg, .op = OP_MASKED_NE, .mask = value->number, .value = 0};
        clauses_compare(when, &condition);
    }
    when->inexact = value->kind == OTHER;
    *value = (struct value){.kind = TRUTH, .when = when};
    return 0;
}

static int read_any(struct kafel *kafel, unsigned depth, struct value *ret, struct err *reterr);

static int read_operand(struct kafel *kafel, unsigned depth, struct value *ret, struct err *reterr)
{
    int r = kafel_accept(kafel, "(", reterr);
    if (r != 0) {
        r = r < 0                ? r
            : depth == DEPTH_MAX ? kafel_fail(kafel, reterr, "fewer parentheses are expected")
                                 : read_any(kafel, depth + 1, ret, reterr);
        return r < 0 ? r : kafel_expect(kafel, ")", reterr);
    }
    *ret = (struct value){.kind = NUMBER};
    if (kafel_constant(kafel, &ret->number)) {
        return kafel_next(kafel, reterr);
    }
    if (kafel_is_name(kafel) && find_argument(kafel, &ret->arg)) {
        ret->kind = ARGUMENT;
        ret->number = UINT64_MAX;
    } else if (!import_constant(kafel->token, kafel->length, &ret->number)) {
        return kafel_fail(kafel, reterr,
                          kafel_is_name(kafel)
                              ? "a known argument or constant is expected (call(a, b) names arguments)"
                              : "a number or an argument is expected");
    }
    return kafel_next(kafel, reterr);
}

static int read_masked(struct kafel *kafel, unsigned depth, struct value *ret, struct err *reterr)
{
    int r = read_operand(kafel, depth, ret, reterr);
    while (r >= 0 && kafel_is(kafel, "&")) {
        CLEANUP(value_clear) struct value next = {0};
        r = kafel_next(kafel, reterr);
        r = r < 0 ? r : read_operand(kafel, depth, &next, reterr);
        bool fits =
            ret->kind <= ARGUMENT && next.kind <= ARGUMENT && (ret->kind == NUMBER || next.kind == NUMBER);
        uint64_t mask = ret->number & next.number;
        bool argument = ret->kind == ARGUMENT || next.kind == ARGUMENT;
        uint32_t arg = ret->kind == ARGUMENT ? ret->arg : next.arg;
        value_clear(ret);
        *ret = (struct value){.kind = !fits      ? OTHER
                                      : argument ? ARGUMENT
                                                 : NUMBER,
                              .number = mask,
                              .arg = arg};
    }
    return r;
}

static int read_bits(struct kafel *kafel, unsigned depth, struct value *ret, struct err *reterr)
{
    int r = read_masked(kafel, depth, ret, reterr);
    while (r >= 0 && kafel_is(kafel, "|")) {
        CLEANUP(value_clear) struct value next = {0};
        r = kafel_next(kafel, reterr);
        r = r < 0 ? r : read_masked(kafel, depth, &next, reterr);
        bool fits = ret->kind == NUMBER && next.kind == NUMBER;
        uint64_t number = ret->number | next.number;
        value_clear(ret);
        *ret = (struct value){.kind = fits ? NUMBER : OTHER, .number = number};
    }
    return r;
}

static bool compare_numbers(uint64_t a, enum seccomp_op op, uint64_t b)
{
    return op == OP_EQ   ? a == b
           : op == OP_NE ? a != b
           : op == OP_LT ? a < b
           : op == OP_LE ? a <= b
           : op == OP_GT ? a > b
                         : a >= b;
}

/* Into `left`, which becomes a truth. */
static int compare(struct kafel *kafel, struct value *left, enum seccomp_op op, struct value *right,
                   struct err *reterr)
{
    static const enum seccomp_op turned[] = {
        [OP_EQ] = OP_EQ, [OP_NE] = OP_NE, [OP_LT] = OP_GT, [OP_LE] = OP_GE, [OP_GT] = OP_LT, [OP_GE] = OP_LE};
    const struct value *argument = left, *number = right;
    if (left->kind == NUMBER && right->kind == ARGUMENT) {
        argument = right;
        number = left;
        op = turned[op];
    }
    struct clauses *when = new_clauses(left->kind == NUMBER && right->kind == NUMBER &&
                                       compare_numbers(left->number, op, right->number));
    if (!when) {
        return err_errno(reterr, ENOMEM, "importing a policy");
    }
    if (argument->kind == ARGUMENT && number->kind == NUMBER) {
        bool whole = argument->number == UINT64_MAX, equal = op == OP_EQ || op == OP_NE;
        struct seccomp_condition condition = {
            .arg = argument->arg, .op = op, .value = number->number, .mask = argument->number};
        if (!whole) {
            condition.op = op == OP_EQ ? OP_MASKED_EQ : OP_MASKED_NE;
        }
        clauses_compare(when, &condition);
        when->inexact |= !whole && !equal;
    } else {
        when->inexact = left->kind != NUMBER || right->kind != NUMBER;
    }
    value_clear(left);
    *left = (struct value){.kind = TRUTH, .when = when};
    (void)kafel;
    return 0;
}

static int read_comparison(struct kafel *kafel, unsigned depth, struct value *ret, struct err *reterr)
{
    static const struct {
        const char *word;
        enum seccomp_op op;
    } rows[] = {{"==", OP_EQ}, {"!=", OP_NE}, {"<", OP_LT}, {"<=", OP_LE}, {">", OP_GT}, {">=", OP_GE}};
    int r = kafel_accept(kafel, "!", reterr);
    if (r > 0) {
        r = depth == DEPTH_MAX ? kafel_fail(kafel, reterr, "fewer of '!' are expected")
                               : read_comparison(kafel, depth + 1, ret, reterr);
        r = r < 0 ? r : make_truth(kafel, ret, reterr);
        if (r == 0) {
            clauses_not(ret->when);
        }
        return r;
    }
    r = r < 0 ? r : read_bits(kafel, depth, ret, reterr);
    for (size_t i = 0; r >= 0 && i < ARRAY_SIZE(rows); i++) {
        if (kafel_is(kafel, rows[i].word)) {
            CLEANUP(value_clear) struct value right = {0};
            r = kafel_next(kafel, reterr);
            r = r < 0 ? r : read_bits(kafel, depth, &right, reterr);
            return r < 0 ? r : compare(kafel, ret, rows[i].op, &right, reterr);
        }
    }
    return r;
}

/* Several joined by `&&`; `&` binds tighter than a comparison here. */
static int read_all_of(struct kafel *kafel, unsigned depth, struct value *ret, struct err *reterr)
{
    int r = read_comparison(kafel, depth, ret, reterr);
    while (r >= 0 && kafel_is(kafel, "&&")) {
        CLEANUP(value_clear) struct value next = {0};
        r = kafel_next(kafel, reterr);
        r = r < 0 ? r : read_comparison(kafel, depth, &next, reterr);
        r = r < 0 ? r : make_truth(kafel, ret, reterr);
        r = r < 0 ? r : make_truth(kafel, &next, reterr);
        if (r == 0) {
            clauses_and(ret->when, next.when);
        }
    }
    return r;
}

/* Several joined by `||`, or by a comma, which binds least and means the same. */
static int read_any(struct kafel *kafel, unsigned depth, struct value *ret, struct err *reterr)
{
    int r = read_all_of(kafel, depth, ret, reterr);
    while (r >= 0 && (kafel_is(kafel, "||") || kafel_is(kafel, ","))) {
        CLEANUP(value_clear) struct value next = {0};
        r = kafel_next(kafel, reterr);
        r = r < 0 ? r : read_all_of(kafel, depth, &next, reterr);
        r = r < 0 ? r : make_truth(kafel, ret, reterr);
        r = r < 0 ? r : make_truth(kafel, &next, reterr);
        if (r == 0) {
            clauses_or(ret->when, next.when);
        }
    }
    return r;
}

int kafel_condition(struct kafel *kafel, struct clauses **ret, struct err *reterr)
{
    CLEANUP(value_clear) struct value value = {0};
    int r = read_any(kafel, 0, &value, reterr);
    r = r < 0 ? r : make_truth(kafel, &value, reterr);
    if (r == 0) {
        *ret = TAKE_PTR(value.when);
    }
    return r;
}
