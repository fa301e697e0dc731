/* The classes of an argument's values that a policy's filter can tell apart. Runs on the command line.
 *
 * All that a filter does with an argument is to hold it to the conditions of the policy's rules. Values are
 * read bit by bit from the top: what a condition makes of the bits so far (still equal, below, above, or
 * different) is all that matters for the rest, so beginnings of which every condition makes the same are one.
 * Behind the last bit those that are left are the classes.
 *
 * What must hold: no class is missed; where there are too many, nothing is said. */
#include "policy/compare/values.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "config/policy/constants.h"
#include "config/policy/policy_file.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "policy/compiled.h"
#include "policy/filter/conditions.h"

#define CONDITIONS_MAX 1024u
#define CLASSES_MAX    4096u
/* Of one call: some seconds. */
#define COMBINATIONS_MAX (1u << 22)
/* Named values that are told of a class which has more. */
#define EXAMPLES_MAX 8u
/* Values of one class that are all told: of so many free bits. */
#define LISTED_BITS 4
#define LISTED_MAX  (1u << LISTED_BITS)
/* Conditions that a description is looked for in. */
#define LITERALS_MAX 16u

static bool same_condition(const struct seccomp_condition *a, const struct seccomp_condition *b)
{
    bool masked = a->op == OP_MASKED_EQ || a->op == OP_MASKED_NE;
    return a->op == b->op && a->value == b->value && (!masked || a->mask == b->mask);
}

static int add_condition(struct argument_values *values, const struct seccomp_condition *condition)
{
    for (size_t i = 0; i < values->n_conditions; i++) {
        if (same_condition(&values->conditions[i], condition)) {
            return 0;
        }
    }
    if (values->n_conditions == CONDITIONS_MAX) {
        return -E2BIG;
    }
    struct seccomp_condition *conditions =
        reallocarray(values->conditions, values->n_conditions + 1, sizeof conditions[0]);
    if (!conditions) {
        return -ENOMEM;
    }
    values->conditions = conditions;
    conditions[values->n_conditions++] = *condition;
    return 0;
}

/* What the policies' rules about the call say about the argument. */
static int collect(const struct policy *const *policies, size_t n_policies, int nr,
                   struct argument_values *values)
{
    int r = 0;
    for (size_t p = 0; p < n_policies; p++) {
        const struct policy_filter *filter = &policies[p]->filter;
        for (size_t i = 0; i < filter->n_entries; i++) {
            if (filter->entries[i].nr != nr) {
                continue;
            }
            const struct seccomp_rule rule = policy_filter_rule(policies[p]->spec, &filter->entries[i]);
            for (size_t c = 0; r == 0 && c < rule.n_conditions; c++) {
                if (rule.conditions[c].arg == values->number) {
                    r = add_condition(values, &rule.conditions[c]);
                }
            }
        }
    }
    return r;
}

/* The bits that a condition looks at. */
static uint64_t bits_of(const struct seccomp_condition *condition)
{
    return condition->op == OP_MASKED_EQ || condition->op == OP_MASKED_NE ? condition->mask : UINT64_MAX;
}

/* What a condition makes of a value of which the bits in `top` are known; of the whole value: whether it
 * holds. */
static int outcome(const struct seccomp_condition *condition, uint64_t value, uint64_t top)
{
    uint64_t own = condition->value & top;
    if (top == UINT64_MAX) {
        return condition_holds(condition, value);
    }
    switch (condition->op) {
    case OP_LT:
    case OP_LE:
    case OP_GT:
    case OP_GE:
        return (value > own) - (value < own);
    default:
        return ((value ^ own) & bits_of(condition)) == 0;
    }
}

static bool same_class(const struct argument_values *values, uint64_t a, uint64_t b, uint64_t top)
{
    for (size_t i = 0; i < values->n_conditions; i++) {
        if (outcome(&values->conditions[i], a, top) != outcome(&values->conditions[i], b, top)) {
            return false;
        }
    }
    return true;
}

/* Differs, but for chance, where classes do (FNV-1a). */
static uint64_t signature_of(const struct argument_values *values, uint64_t value, uint64_t top)
{
    uint64_t signature = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < values->n_conditions; i++) {
        signature ^= (uint64_t)(outcome(&values->conditions[i], value, top) + 1);
        signature *= UINT64_C(0x100000001b3);
    }
    return signature;
}

static size_t find_class(const struct argument_values *values, uint64_t value, uint64_t top,
                         uint64_t signature)
{
    size_t found = 0;
    while (found < values->n && (values->classes[found].signature != signature ||
                                 !same_class(values, values->classes[found].least, value, top))) {
        found++;
    }
    return found;
}

size_t argument_values_class(const struct argument_values *values, uint64_t value)
{
    return find_class(values, value, UINT64_MAX, signature_of(values, value, UINT64_MAX));
}

/* One more bit of the classes in `from`, each of them with the bit clear and set, into `to`: by least values,
 * as they come. */
static int split(const struct argument_values *from, uint64_t top, uint64_t bit, struct argument_values *to)
{
    to->n = 0;
    for (size_t i = 0; i < 2 * from->n; i++) {
        uint64_t set = i % 2 ? bit : 0;
        uint64_t least = from->classes[i / 2].least | set, greatest = from->classes[i / 2].greatest | set;
        uint64_t signature = signature_of(to, least, top);
        size_t class = find_class(to, least, top, signature);
        if (class == CLASSES_MAX) {
            return -E2BIG;
        }
        if (class == to->n) {
            to->classes[to->n++] = (struct value_class){least, greatest, signature};
        } else if (greatest > to->classes[class].greatest) {
            to->classes[class].greatest = greatest;
        }
    }
    return 0;
}

/* `spare`: room for as many classes. */
static int find_classes(struct argument_values *values, struct value_class *spare)
{
    struct argument_values other = *values;
    other.classes = spare;
    values->n = 1;
    values->classes[0] = (struct value_class){0};
    int r = 0;
    for (unsigned bits = 1; r == 0 && bits <= 64; bits += 2) {
        r = split(values, UINT64_MAX << (64 - bits), UINT64_C(1) << (64 - bits), &other);
        r = r < 0 ? r : split(&other, UINT64_MAX << (63 - bits), UINT64_C(1) << (63 - bits), values);
    }
    return r;
}

/* Leaves the classes of which all of `given` that are about the argument hold. */
static void keep_given(struct argument_values *values, const struct seccomp_condition *given, size_t n_given)
{
    size_t kept = 0;
    for (size_t i = 0; i < values->n; i++) {
        bool holds = true;
        for (size_t k = 0; k < n_given; k++) {
            holds = holds &&
                    (given[k].arg != values->number || condition_holds(&given[k], values->classes[i].least));
        }
        values->classes[kept] = values->classes[i];
        kept += holds;
    }
    values->n = kept;
}

static int argument_values_find(const struct policy *const *policies, size_t n_policies, int nr,
                                const struct seccomp_condition *given, size_t n_given,
                                struct argument_values *values)
{
    CLEANUP(freep) struct value_class *spare = NULL;
    int r = collect(policies, n_policies, nr, values);
    for (size_t i = 0; r == 0 && i < n_given; i++) {
        r = given[i].arg == values->number ? add_condition(values, &given[i]) : 0;
    }
    if (r < 0) {
        return r;
    }
    size_t most = values->n_conditions > 0 ? CLASSES_MAX : 1;
    values->classes = calloc(most, sizeof values->classes[0]);
    spare = calloc(most, sizeof spare[0]);
    if (!values->classes || !spare) {
        return -ENOMEM;
    }
    r = find_classes(values, spare);
    keep_given(values, given, n_given);
    return r;
}

void call_values_clear(struct call_values *call)
{
    for (size_t i = 0; i < SECCOMP_ARGS; i++) {
        free(call->arguments[i].conditions);
        free(call->arguments[i].classes);
    }
    *call = (struct call_values){0};
}

int call_values_find(const struct policy *const *policies, size_t n_policies, int nr, const char *call,
                     const struct seccomp_condition *given, size_t n_given, struct call_values *ret,
                     struct err *reterr)
{
    *ret = (struct call_values){.n = 1};
    for (uint32_t i = 0; i < SECCOMP_ARGS; i++) {
        struct argument_values *values = &ret->arguments[i];
        *values = (struct argument_values){.number = i, .argument = argument_at(call, i)};
        int r = argument_values_find(policies, n_policies, nr, given, n_given, values);
        if (r == -E2BIG) {
            return err_set(reterr, ERR_CONFIG, E2BIG, call,
                           "argument %" PRIu32 ": more values are told apart than can be tried", i);
        }
        if (r < 0) {
            return err_errno(reterr, ENOMEM, "comparing policies");
        }
        ret->n *= values->n;
        if (ret->n > COMBINATIONS_MAX) {
            return err_set(reterr, ERR_CONFIG, E2BIG, call,
                           "more than %u combinations of its arguments are told apart", COMBINATIONS_MAX);
        }
    }
    return 0;
}

void call_values_at(const struct call_values *call, size_t index, uint64_t ret[SECCOMP_ARGS])
{
    for (size_t i = SECCOMP_ARGS; i-- > 0; index /= call->arguments[i].n) {
        ret[i] = call->arguments[i].classes[index % call->arguments[i].n].least;
    }
}

/* ---- In words ---- */

static uint64_t read_bits(const struct named_argument *argument)
{
    return argument && argument->bits < 64 ? (UINT64_C(1) << argument->bits) - 1 : UINT64_MAX;
}

void argument_value_print(const struct named_argument *argument, uint64_t value, struct buf *ret)
{
    uint64_t read = value & read_bits(argument);
    const char *name = argument && argument->kind ? constant_name(argument->kind, read) : NULL;
    if (name) {
        buf_puts(ret, name);
    } else {
        buf_printf(ret, read < 1024 ? "%" PRIu64 : "0x%" PRIx64, read);
    }
    if (read != value) {
        buf_printf(ret, " with bits that the kernel does not read (0x%" PRIx64 ")", value);
    }
}

/* The values of a class as the kernel reads them, where a comparison with one value, up to few free bits,
 * leaves no others; 0: there are more. */
static size_t list_class(const struct argument_values *values, size_t class, uint64_t ret[LISTED_MAX])
{
    uint64_t read = read_bits(values->argument);
    for (size_t i = 0; i < values->n_conditions; i++) {
        const struct seccomp_condition *condition = &values->conditions[i];
        bool equal = condition->op == OP_EQ || condition->op == OP_MASKED_EQ;
        bool differs = condition->op == OP_NE || condition->op == OP_MASKED_NE;
        uint64_t free_bits = read & ~bits_of(condition);
        if ((!equal && !differs) || condition_holds(condition, values->classes[class].least) != equal ||
            __builtin_popcountll(free_bits) > LISTED_BITS) {
            continue;
        }
        size_t n = 0;
        uint64_t some = 0;
        do {
            uint64_t value = (values->classes[class].least & ~free_bits) | some;
            if (argument_values_class(values, value) == class) {
                ret[n++] = value;
            }
            some = (some - free_bits) & free_bits;
        } while (some != 0);
        return n;
    }
    return 0;
}

/* Whether all classes whose `chosen` is as given can be listed. */
static bool can_list(const struct argument_values *values, const bool *chosen, bool given)
{
    uint64_t listed[LISTED_MAX];
    for (size_t i = 0; i < values->n; i++) {
        if (chosen[i] == given && list_class(values, i, listed) == 0) {
            return false;
        }
    }
    return true;
}

static void put_list(const struct argument_values *values, const bool *chosen, bool given,
                     const char *between, struct buf *ret)
{
    const char *before = " ";
    for (size_t i = 0; i < values->n; i++) {
        uint64_t listed[LISTED_MAX];
        size_t n = chosen[i] == given ? list_class(values, i, listed) : 0;
        for (size_t k = 0; k < n; k++) {
            buf_puts(ret, before);
            argument_value_print(values->argument, listed[k], ret);
            before = between;
        }
    }
}

/* A condition, or its opposite; what holds for just the chosen classes is told by one or two of them. */
struct literal {
    const struct seccomp_condition *condition;
    bool holds;
};

static bool tells(const struct argument_values *values, const bool *chosen, const struct literal *literals,
                  size_t n)
{
    for (size_t i = 0; i < values->n; i++) {
        bool all = true;
        for (size_t k = 0; k < n; k++) {
            all =
                all && condition_holds(literals[k].condition, values->classes[i].least) == literals[k].holds;
        }
        if (all != chosen[i]) {
            return false;
        }
    }
    return true;
}

/* How many of them tell it; 0: more would be needed. */
static size_t find_literals(const struct argument_values *values, const bool *chosen, struct literal ret[2])
{
    size_t n = 2 * (values->n_conditions < LITERALS_MAX ? values->n_conditions : LITERALS_MAX);
    for (size_t i = 0; i < n; i++) {
        ret[0] = (struct literal){&values->conditions[i / 2], i % 2 == 0};
        if (tells(values, chosen, ret, 1)) {
            return 1;
        }
    }
    for (size_t i = 0; i < n * n; i++) {
        ret[0] = (struct literal){&values->conditions[i / n / 2], i / n % 2 == 0};
        ret[1] = (struct literal){&values->conditions[i % n / 2], i % n % 2 == 0};
        if (i / n != i % n && tells(values, chosen, ret, 2)) {
            return 2;
        }
    }
    return 0;
}

/* "CLONE_NEWUSER|CLONE_NEWNET" where every bit has a name of its own, or the number. */
static void put_bits(const struct named_argument *argument, uint64_t bits, struct buf *ret)
{
    CLEANUP(buf_free) struct buf names = BUF_INIT;
    bool named = argument && argument->kind && bits != 0;
    if (!named || constant_name(argument->kind, bits)) {
        argument_value_print(argument, bits, ret);
        return;
    }
    for (uint64_t rest = bits; named && rest != 0; rest &= rest - 1) {
        const char *name = constant_name(argument->kind, rest & -rest);
        buf_printf(&names, "%s%s", names.len > 0 ? "|" : "", name ? name : "");
        named = name != NULL;
    }
    if (named) {
        buf_printf(ret, "(%s)", names.data ? names.data : "");
    } else {
        buf_printf(ret, "0x%" PRIx64, bits);
    }
}

static void put_literal(const struct named_argument *argument, const struct literal *literal, struct buf *ret)
{
    static const char *const words[][2] = {
        [OP_EQ] = {"not", ""},
        [OP_NE] = {"", "not"},
        [OP_LT] = {"at least", "below"},
        [OP_LE] = {"above", "at most"},
        [OP_GT] = {"at most", "above"},
        [OP_GE] = {"below", "at least"},
        [OP_MASKED_EQ] = {"is not", "is"},
        [OP_MASKED_NE] = {"is", "is not"},
    };
    const struct seccomp_condition *condition = literal->condition;
    const char *word = words[condition->op][literal->holds];
    bool masked = condition->op == OP_MASKED_EQ || condition->op == OP_MASKED_NE;
    if (masked && condition->mask != read_bits(argument)) {
        buf_puts(ret, " & ");
        put_bits(argument, condition->mask, ret);
        buf_printf(ret, " %s ", word);
    } else {
        buf_printf(ret, " %s%s", word, *word ? " " : "");
    }
    if (masked && condition->value == 0) {
        buf_putc(ret, '0');
    } else {
        put_bits(argument, condition->value, ret);
    }
}

/* Named values of the classes; how many. */
static size_t put_named(const struct argument_values *values, const bool *chosen, struct buf *ret)
{
    const char *kind = values->argument ? values->argument->kind : NULL;
    const char *name;
    size_t told = 0;
    for (size_t i = 0; kind && (name = constant_row(kind, i)); i++) {
        uint64_t value;
        size_t class = constant_find(kind, name, strlen(name), &value) ? argument_values_class(values, value)
                                                                       : values->n;
        if (class == values->n || !chosen[class] || strcmp(constant_name(kind, value), name) != 0) {
            continue;
        }
        if (told == EXAMPLES_MAX) {
            buf_puts(ret, ", ...");
            break;
        }
        buf_printf(ret, "%s%s", told == 0 ? " " : ", ", name);
        told++;
    }
    return told;
}

/* The least and the greatest. */
static void put_numbers(const struct argument_values *values, const bool *chosen, struct buf *ret)
{
    uint64_t least = UINT64_MAX, greatest = 0;
    for (size_t i = 0; i < values->n; i++) {
        if (chosen[i]) {
            least = values->classes[i].least < least ? values->classes[i].least : least;
            greatest = values->classes[i].greatest > greatest ? values->classes[i].greatest : greatest;
        }
    }
    buf_putc(ret, ' ');
    argument_value_print(values->argument, least, ret);
    if (greatest != least && greatest <= read_bits(values->argument)) {
        buf_puts(ret, ", ");
        argument_value_print(values->argument, greatest, ret);
    }
}

void argument_values_print(const struct argument_values *values, const bool *chosen, struct buf *ret)
{
    struct literal literals[2];
    if (values->argument) {
        buf_puts(ret, values->argument->name);
    } else {
        buf_printf(ret, "argument %" PRIu32, values->number);
    }
    if (can_list(values, chosen, true)) {
        put_list(values, chosen, true, " or ", ret);
        return;
    }
    if (can_list(values, chosen, false)) {
        buf_puts(ret, " not");
        put_list(values, chosen, false, " nor ", ret);
        return;
    }
    size_t n = find_literals(values, chosen, literals);
    for (size_t i = 0; i < n; i++) {
        buf_puts(ret, i > 0 ? " and" : "");
        put_literal(values->argument, &literals[i], ret);
    }
    if (n == 0) {
        buf_puts(ret, " such as");
        if (put_named(values, chosen, ret) == 0) {
            put_numbers(values, chosen, ret);
        }
    }
}
