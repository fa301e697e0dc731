/* `where` of seccomp rules as conditions: names looked up, and one choice of conditions for each way to meet
 * them. Runs in the warden and the command line. Only the two kinds of comparison come out that look at some
 * bits of an argument: 32 of them where the kernel reads 32, so that setting the others changes nothing.
 *
 * A field of the schema is called `errno`, so this file does without <errno.h>, where that is a macro. */
#include <stdlib.h>
#include <string.h>

#include "config/format/check.h"
#include "config/format/suggest.h"
#include "config/policy/constants.h"
#include "config/policy/policy.pb-c.h"
#include "config/policy/policy_file.h"
#include "config/policy/policy_message.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"

#define VALUES_MAX 64u

/* The values of a list, as comparisons of some bits. */
struct terms {
    struct seccomp_condition rows[VALUES_MAX];
    size_t n;
};

/* An argument that `where` is about, for all the calls of its rule. */
struct subject {
    uint32_t number;
    uint64_t bits;    /* that the kernel reads */
    const char *kind; /* of its constants; NULL: none are known */
};

static int fail_argument(struct checker *checker, const char *call, const char *name)
{
    char near[SUGGESTION_TEXT_MAX];
    struct suggestion suggestion = SUGGESTION_FOR(name, strlen(name));
    argument_suggest(call, &suggestion);
    return check_fail(checker, "arg",
                      "\"%.40s\" is not a known argument of %.40s%s; a number, 0 to 5, always is", name, call,
                      suggestion_text(&suggestion, "", near));
}

/* `number`: of an argument without a name. */
static struct subject subject_from(const struct named_argument *argument, uint32_t number)
{
    return (struct subject){
        .number = argument ? argument->number : number,
        .bits = argument && argument->bits < 64 ? (UINT64_C(1) << argument->bits) - 1 : UINT64_MAX,
        .kind = argument ? argument->kind : NULL,
    };
}

/* The same argument of each call; a number need not be known, and is then read whole. */
static int subject_of(struct checker *checker, const Immure__SeccompRule *rule, const char *name,
                      struct subject *ret)
{
    bool digit = name[0] >= '0' && name[0] <= '5' && name[1] == '\0';
    if (rule->n_set > 0) {
        return check_fail(checker, NULL, "goes with system calls, not with sets");
    }
    for (size_t i = 0; i < rule->n_syscall; i++) {
        const struct named_argument *argument = argument_find(rule->syscall[i], name);
        if (!argument && !digit) {
            return fail_argument(checker, rule->syscall[i], name);
        }
        const struct subject subject = subject_from(argument, (uint32_t)(name[0] - '0'));
        if (i > 0 && (subject.number != ret->number || subject.bits != ret->bits)) {
            return check_fail(checker, "arg", "%s of %.40s is another argument than of %.40s", name,
                              rule->syscall[i], rule->syscall[0]);
        }
        *ret = subject;
    }
    return 0;
}

static bool number_of(const char *text, size_t length, uint64_t *ret)
{
    char copy[32], *end;
    if (length == 0 || length >= sizeof copy || text[0] < '0' || text[0] > '9') {
        return false;
    }
    memcpy(copy, text, length);
    copy[length] = '\0';
    *ret = strtoull(copy, &end, 0);
    bool too_large = *ret == UINT64_MAX && strcmp(copy, "18446744073709551615") != 0 &&
                     strcasecmp(copy, "0xffffffffffffffff") != 0;
    return *end == '\0' && !too_large;
}

static int fail_value(struct checker *checker, const struct subject *subject, const char *word, size_t length)
{
    char near[SUGGESTION_TEXT_MAX];
    uint64_t value;
    struct suggestion suggestion = SUGGESTION_FOR(word, length);
    if (subject->kind) {
        constant_suggest(subject->kind, &suggestion);
    }
    const char *what = constant_find(NULL, word, length, &value)
                           ? "is a constant of another argument"
                           : "is neither a number nor a name that is known here";
    return check_fail(checker, NULL, "\"%.*s\" %s%s", (int)(length < 60 ? length : 60), word, what,
                      suggestion_text(&suggestion, "", near));
}

/* "SOCK_STREAM|SOCK_CLOEXEC". */
static int value_of(struct checker *checker, const struct subject *subject, const char *text, uint64_t *ret)
{
    *ret = 0;
    for (const char *word = text;; word++) {
        size_t length = strcspn(word, "|");
        uint64_t value;
        if (!number_of(word, length, &value) &&
            !(subject->kind && constant_find(subject->kind, word, length, &value))) {
            return fail_value(checker, subject, word, length);
        }
        *ret |= value;
        word += length;
        if (*word == '\0') {
            break;
        }
    }
    return *ret & ~subject->bits
               ? check_fail(checker, NULL, "%.60s has more bits than the kernel reads", text)
               : 0;
}

int policy_value_from_text(struct checker *checker, const struct named_argument *argument, const char *text,
                           uint64_t *ret)
{
    const struct subject subject = subject_from(argument, 0);
    return value_of(checker, &subject, text, ret);
}

static int values_of(struct checker *checker, const struct subject *subject, const char *field,
                     char *const *texts, size_t n, uint64_t mask, struct terms *ret)
{
    if (n > VALUES_MAX) {
        return check_fail(checker, field, "more than %u values", VALUES_MAX);
    }
    int r = 0;
    for (size_t i = 0; r == 0 && i < n; i++) {
        size_t before = check_enter(checker, field, i);
        uint64_t value;
        r = value_of(checker, subject, texts[i], &value);
        if (r == 0 && (value & ~mask) != 0) {
            r = check_fail(checker, NULL, "%.60s has bits outside the mask, so that it could never be equal",
                           texts[i]);
        }
        ret->rows[ret->n++] = (struct seccomp_condition){
            .arg = subject->number, .op = OP_MASKED_EQ, .mask = mask, .value = r < 0 ? 0 : value};
        check_leave(checker, before);
    }
    return r;
}

/* Makes one comparison of two values that differ in one bit, without it; false: there are no such two. */
static bool join_two(struct terms *terms)
{
    for (size_t i = 0; i < terms->n; i++) {
        for (size_t k = i + 1; k < terms->n; k++) {
            struct seccomp_condition *a = &terms->rows[i], *b = &terms->rows[k];
            uint64_t differ = a->value ^ b->value;
            if (a->mask == b->mask && (differ & (differ - 1)) == 0) {
                a->mask &= ~differ;
                a->value &= ~differ;
                *b = terms->rows[--terms->n];
                return true;
            }
        }
    }
    return false;
}

/* Whether each is a flag: numbers of families, say, have bits in common. A type of socket has both. */
static int check_flags(struct checker *checker, const struct subject *subject, const char *field,
                       const struct terms *terms)
{
    bool flags = !subject->kind || constant_is_flag(subject->kind),
         type = subject->kind && strcmp(subject->kind, "type") == 0;
    for (size_t i = 0; i < terms->n; i++) {
        uint64_t value = terms->rows[i].value;
        if (value == 0 || !(flags || (type && (value & SOCK_TYPE_MASK) == 0))) {
            return check_fail(checker, field, "has values that are no flags; in and not_in compare values");
        }
    }
    return 0;
}

/* `all_of` and `none_of`: one comparison. */
static int flags_of(struct checker *checker, const struct subject *subject,
                    const Immure__SeccompWhere *message, struct terms *ret)
{
    struct terms all = {.n = 0}, none = {.n = 0};
    int r = values_of(checker, subject, "all_of", message->all_of, message->n_all_of, subject->bits, &all);
    r = r < 0 ? r
              : values_of(checker, subject, "none_of", message->none_of, message->n_none_of, subject->bits,
                          &none);
    r = r < 0 ? r : check_flags(checker, subject, "all_of", &all);
    r = r < 0 ? r : check_flags(checker, subject, "none_of", &none);
    struct seccomp_condition both = {.arg = subject->number, .op = OP_MASKED_EQ};
    for (size_t i = 0; i < all.n; i++) {
        both.value |= all.rows[i].value;
    }
    both.mask = both.value;
    for (size_t i = 0; r == 0 && i < none.n; i++) {
        if (none.rows[i].value & both.value) {
            return check_fail(checker, "none_of", "has flags that are among `all_of`");
        }
        both.mask |= none.rows[i].value;
    }
    ret->rows[ret->n++] = both;
    return r < 0 || both.mask != 0 ? r : check_fail(checker, NULL, "compares no bit");
}

static int check_form(struct checker *checker, const Immure__SeccompWhere *message)
{
    bool in = message->n_in > 0, not_in = message->n_not_in > 0;
    bool flags = message->n_all_of + message->n_none_of > 0;
    if (in + not_in + flags != 1) {
        return check_fail(checker, NULL, "needs one of in, not_in, or all_of and none_of");
    }
    return message->mask && flags ? check_fail(checker, "mask", "has a meaning for in and not_in only") : 0;
}

static void put_words(const Immure__SeccompWhere *message, struct buf *ret)
{
    const struct {
        const char *before, *between;
        char *const *values;
        size_t n;
    } lists[] = {
        {" is ", " or ", message->in, message->n_in},
        {" is not ", " nor ", message->not_in, message->n_not_in},
        {" has ", " and ", message->all_of, message->n_all_of},
        {" has not ", " nor ", message->none_of, message->n_none_of},
    };
    bool number = message->arg[0] >= '0' && message->arg[0] <= '9', more = false;
    buf_printf(ret, "%s %s%s", ret->len == 0 ? "where" : " and", number ? "argument " : "", message->arg);
    if (message->mask) {
        buf_printf(ret, " & %s", message->mask);
    }
    for (size_t k = 0; k < ARRAY_SIZE(lists); k++) {
        for (size_t i = 0; i < lists[k].n; i++) {
            buf_printf(ret, "%s%s%s", i == 0 && more ? " and" : "",
                       i == 0 ? lists[k].before : lists[k].between, lists[k].values[i]);
            more = true;
        }
    }
}

static int terms_of(struct checker *checker, const Immure__SeccompRule *rule,
                    const Immure__SeccompWhere *message, struct terms *ret)
{
    struct subject subject = {0};
    int r = check_form(checker, message);
    r = r < 0 ? r : subject_of(checker, rule, message->arg, &subject);
    if (r < 0 || message->n_all_of + message->n_none_of > 0) {
        return r < 0 ? r : flags_of(checker, &subject, message, ret);
    }
    uint64_t mask = subject.bits;
    if (message->mask) {
        size_t before = fieldpath_push(&checker->path, "mask");
        r = value_of(checker, &subject, message->mask, &mask);
        r = r < 0 || mask != 0 ? r : check_fail(checker, NULL, "compares no bit");
        fieldpath_pop(&checker->path, before);
    }
    bool in = message->n_in > 0;
    r = r < 0 ? r
              : values_of(checker, &subject, in ? "in" : "not_in", in ? message->in : message->not_in,
                          in ? message->n_in : message->n_not_in, mask, ret);
    while (in && join_two(ret)) {
    }
    for (size_t i = 0; !in && i < ret->n; i++) {
        ret->rows[i].op = OP_MASKED_NE;
    }
    return r;
}

/* Every choice that there is so far, with each of the terms; or, what is not to be, with all of them. */
static int add_terms(struct checker *checker, const struct terms *terms, struct where_choices *choices)
{
    bool all = terms->rows[0].op == OP_MASKED_NE;
    size_t times = all ? 1 : terms->n, add = all ? terms->n : 1, n = choices->n;
    if (n * times > WHERE_CHOICES_MAX || choices->n_conditions + add > WHERE_CONDITIONS_MAX) {
        return check_fail(checker, NULL, "gives this rule too many choices, more than %u", WHERE_CHOICES_MAX);
    }
    for (size_t t = times; t-- > 0;) {
        for (size_t i = 0; i < n; i++) {
            struct seccomp_condition *to = choices->rows[t * n + i];
            memmove(to, choices->rows[i], sizeof choices->rows[i]);
            for (size_t k = 0; k < add; k++) {
                to[choices->n_conditions + k] = terms->rows[all ? k : t];
            }
        }
    }
    choices->n = n * times;
    choices->n_conditions += add;
    return 0;
}

int policy_where_from_message(struct checker *checker, const Immure__SeccompRule *rule,
                              struct where_choices *ret, char **ret_words)
{
    CLEANUP(buf_free) struct buf words = BUF_INIT;
    *ret = (struct where_choices){.n = 1};
    int r = rule->n_where > 0 && rule->n_condition > 0
                ? check_fail(checker, "condition", "is another way to say `where`; a rule has one of them")
                : 0;
    for (size_t i = 0; r == 0 && i < rule->n_where; i++) {
        struct terms terms = {.n = 0};
        size_t before = check_enter(checker, "where", i);
        r = terms_of(checker, rule, rule->where[i], &terms);
        r = r < 0 ? r : add_terms(checker, &terms, ret);
        check_leave(checker, before);
        put_words(rule->where[i], &words);
    }
    return r < 0 || rule->n_where == 0 ? r : check_copy(checker, words.failed ? "" : words.data, ret_words);
}
