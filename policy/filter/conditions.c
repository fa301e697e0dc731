/* Conditions on system call arguments, without libseccomp: pure functions over plain numbers.
 *
 * Several rules may speak about one call. libseccomp does not say which wins where two of them hold, so a
 * policy in which two rules with different actions could both hold is refused: here is the proof that they
 * cannot. */
#include "policy/filter/conditions.h"

#include <inttypes.h>

#include "config/policy/constants.h"
#include "config/policy/policy_file.h"
#include "jail/base/buf.h"

const char *conditions_problem(const struct seccomp_rule *rule)
{
    unsigned seen = 0;
    for (size_t i = 0; i < rule->n_conditions; i++) {
        const struct seccomp_condition *condition = &rule->conditions[i];
        if (condition->arg >= SECCOMP_ARGS) {
            return "a system call has arguments 0 to 5";
        }
        if (seen & 1u << condition->arg && condition->op != OP_MASKED_NE) {
            return "an argument is compared twice; one rule can compare each argument once";
        }
        seen |= 1u << condition->arg;
    }
    return NULL;
}

bool condition_holds(const struct seccomp_condition *condition, uint64_t value)
{
    switch (condition->op) {
    case OP_EQ:
        return value == condition->value;
    case OP_NE:
        return value != condition->value;
    case OP_LT:
        return value < condition->value;
    case OP_LE:
        return value <= condition->value;
    case OP_GT:
        return value > condition->value;
    case OP_GE:
        return value >= condition->value;
    case OP_MASKED_EQ:
        return (value & condition->mask) == condition->value;
    case OP_MASKED_NE:
        return (value & condition->mask) != condition->value;
    }
    return false;
}

bool conditions_may_hold(const struct seccomp_rule *rule, unsigned known,
                         const uint64_t arguments[SECCOMP_ARGS], bool *ret_sure)
{
    *ret_sure = true;
    for (size_t i = 0; i < rule->n_conditions; i++) {
        const struct seccomp_condition *condition = &rule->conditions[i];
        if (!(known & 1u << condition->arg)) {
            *ret_sure = false;
        } else if (!condition_holds(condition, arguments[condition->arg])) {
            return false;
        }
    }
    return true;
}

/* The values that satisfy a comparison, as an interval where they are one. */
static bool interval_of(const struct seccomp_condition *condition, uint64_t *ret_low, uint64_t *ret_high)
{
    uint64_t value = condition->value;
    *ret_low = 0;
    *ret_high = UINT64_MAX;
    switch (condition->op) {
    case OP_EQ:
        *ret_low = *ret_high = value;
        return true;
    case OP_LT:
        *ret_high = value - 1;
        return value > 0;
    case OP_LE:
        *ret_high = value;
        return true;
    case OP_GT:
        *ret_low = value + 1;
        return value < UINT64_MAX;
    case OP_GE:
        *ret_low = value;
        return true;
    case OP_NE:
    case OP_MASKED_EQ:
    case OP_MASKED_NE:
        break;
    }
    return false;
}

static bool never_both(const struct seccomp_condition *a, const struct seccomp_condition *b)
{
    if (a->op == OP_EQ) {
        return !condition_holds(b, a->value);
    }
    if (b->op == OP_EQ) {
        return !condition_holds(a, b->value);
    }
    if (a->op == OP_MASKED_EQ && b->op == OP_MASKED_EQ) {
        return ((a->value ^ b->value) & a->mask & b->mask) != 0;
    }
    if (a->op == OP_MASKED_NE || b->op == OP_MASKED_NE) {
        const struct seccomp_condition *other = a->op == OP_MASKED_NE ? a : b, *is = other == a ? b : a;
        return is->op == OP_MASKED_EQ && (is->mask & other->mask) == other->mask &&
               (is->value & other->mask) == other->value;
    }
    uint64_t a_low, a_high, b_low, b_high;
    if (interval_of(a, &a_low, &a_high) && interval_of(b, &b_low, &b_high)) {
        return a_high < b_low || b_high < a_low;
    }
    return false;
}

bool conditions_disjoint(const struct seccomp_rule *a, const struct seccomp_rule *b)
{
    for (size_t i = 0; i < a->n_conditions; i++) {
        for (size_t n = 0; n < b->n_conditions; n++) {
            if (a->conditions[i].arg == b->conditions[n].arg &&
                never_both(&a->conditions[i], &b->conditions[n])) {
                return true;
            }
        }
    }
    return false;
}

/* Small numbers read best as decimals, flags and masks as hexadecimals. */
static void put_number(struct buf *ret, uint64_t number)
{
    buf_printf(ret, number < 1024 ? "%" PRIu64 : "0x%" PRIx64, number);
}

static const struct named_argument *argument_of(const struct seccomp_rule *rule, uint32_t number)
{
    return rule->n_syscalls > 0 ? argument_at(rule->syscalls[0], number) : NULL;
}

const char *condition_constant(const struct seccomp_rule *rule, const struct seccomp_condition *condition)
{
    const struct named_argument *argument = argument_of(rule, condition->arg);
    bool whole = condition->op != OP_MASKED_EQ || condition->mask >= UINT32_MAX;
    return argument && argument->kind && whole && condition->op != OP_MASKED_NE
               ? constant_name(argument->kind, condition->value)
               : NULL;
}

void conditions_print(const struct seccomp_rule *rule, struct buf *ret)
{
    static const char *const words[] = {
        [OP_EQ] = "is",       [OP_NE] = "is not",      [OP_LT] = "is below",  [OP_LE] = "is at most",
        [OP_GT] = "is above", [OP_GE] = "is at least", [OP_MASKED_EQ] = "is", [OP_MASKED_NE] = "is not",
    };
    if (rule->where) {
        buf_puts(ret, rule->where);
        return;
    }
    for (size_t i = 0; i < rule->n_conditions; i++) {
        const struct seccomp_condition *condition = &rule->conditions[i];
        const struct named_argument *argument = argument_of(rule, condition->arg);
        const char *name = condition_constant(rule, condition);
        buf_puts(ret, i == 0 ? "where " : " and ");
        if (name) {
            buf_printf(ret, "%s %s %s", argument->name, words[condition->op], name);
            continue;
        }
        buf_printf(ret, "argument %" PRIu32, condition->arg);
        if (condition->op == OP_MASKED_EQ || condition->op == OP_MASKED_NE) {
            buf_printf(ret, " & 0x%" PRIx64, condition->mask);
        }
        buf_printf(ret, " %s ", words[condition->op]);
        put_number(ret, condition->value);
    }
}
