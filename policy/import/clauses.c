/* Conditions as choices of comparisons; pure. Runs in the command line. Everything is a comparison of some
 * bits with a value, or its opposite: ranges become blocks of values, since the proof that two rules of a
 * policy never both hold (policy/filter/conditions.c) is one about bits. */
#include "policy/import/clauses.h"

#include <string.h>

void clauses_set(struct clauses *clauses, bool always)
{
    clauses->n = always;
    clauses->rows[0].n = 0;
    clauses->inexact = false;
}

bool clauses_always(const struct clauses *clauses)
{
    return !clauses->inexact && clauses->n == 1 && clauses->rows[0].n == 0;
}

/* Of one bit, the two operators can say the same. */
static struct seccomp_condition opposite(const struct seccomp_condition *condition)
{
    struct seccomp_condition ret = *condition;
    ret.op = ret.op == OP_MASKED_EQ ? OP_MASKED_NE : OP_MASKED_EQ;
    return ret;
}

/* Whether the second holds wherever the first does. */
static bool implies(const struct seccomp_condition *a, const struct seccomp_condition *b)
{
    if (a->arg != b->arg) {
        return false;
    }
    if (a->op == OP_MASKED_NE) {
        return b->op == OP_MASKED_NE && a->mask == b->mask && a->value == b->value;
    }
    uint64_t differ = (a->value ^ b->value) & a->mask & b->mask;
    return b->op == OP_MASKED_NE ? differ != 0 : differ == 0 && (b->mask & ~a->mask) == 0;
}

static bool clause_implies(const struct clause *a, const struct clause *b)
{
    for (size_t i = 0; i < b->n; i++) {
        size_t k = 0;
        while (k < a->n && !implies(&a->rows[k], &b->rows[i])) {
            k++;
        }
        if (k == a->n) {
            return false;
        }
    }
    return true;
}

enum added { ADDED, NEVER, TOO_MANY };

/* What is known of the same argument already becomes one comparison with it. */
static enum added clause_add(struct clause *clause, struct seccomp_condition condition)
{
    for (size_t i = 0; i < clause->n; i++) {
        const struct seccomp_condition *row = &clause->rows[i], not = opposite(&condition);
        if (implies(row, &not )) {
            return NEVER;
        }
        if (implies(row, &condition)) {
            return ADDED;
        }
        if (condition.op == OP_MASKED_EQ && row->op == OP_MASKED_EQ && row->arg == condition.arg) {
            condition.mask |= row->mask;
            condition.value |= row->value;
        }
    }
    struct clause kept = {.n = 0};
    bool first = condition.op == OP_MASKED_EQ;
    if (first) {
        kept.rows[kept.n++] = condition;
    }
    for (size_t i = 0; i < clause->n; i++) {
        const struct seccomp_condition not = opposite(&clause->rows[i]);
        if (implies(&condition, &not )) {
            return NEVER;
        }
        if (implies(&condition, &clause->rows[i])) {
            continue;
        }
        if (kept.n == CLAUSE_COMPARISONS_MAX) {
            return TOO_MANY;
        }
        kept.rows[kept.n++] = clause->rows[i];
    }
    if (!first) {
        if (kept.n == CLAUSE_COMPARISONS_MAX) {
            return TOO_MANY;
        }
        kept.rows[kept.n++] = condition;
    }
    *clause = kept;
    return ADDED;
}

static void add_clause(struct clauses *to, const struct clause *clause)
{
    size_t n = 0;
    for (size_t i = 0; i < to->n; i++) {
        if (clause_implies(clause, &to->rows[i])) {
            return;
        }
    }
    for (size_t i = 0; i < to->n; i++) {
        if (!clause_implies(&to->rows[i], clause)) {
            to->rows[n++] = to->rows[i];
        }
    }
    to->n = n;
    if (n == CLAUSES_MAX) {
        to->inexact = true;
        return;
    }
    to->rows[to->n++] = *clause;
}

/* One comparison that has to be possible and not always true. */
static void add_one(struct clauses *to, struct seccomp_condition condition)
{
    bool is = condition.op == OP_MASKED_EQ, empty = condition.mask == 0;
    bool bit = (condition.mask & (condition.mask - 1)) == 0 && !empty;
    bool impossible = (condition.value & ~condition.mask) != 0;
    struct clause clause = {.n = 0};
    if (impossible ? is : empty && !is) {
        return;
    }
    if (!is && bit && !impossible) { /* the other value of one bit */
        condition.op = OP_MASKED_EQ;
        condition.value ^= condition.mask;
    }
    if (!impossible && !empty) {
        clause.rows[clause.n++] = condition;
    }
    add_clause(to, &clause);
}

/* Values from 0 to below `end`, as blocks of a power of two. */
static void add_below(struct clauses *to, uint32_t arg, uint64_t end)
{
    uint64_t begin = 0;
    for (unsigned bit = 64; bit-- > 0;) {
        uint64_t size = UINT64_C(1) << bit;
        if (end & size) {
            add_one(to, (struct seccomp_condition){
                            .arg = arg, .op = OP_MASKED_EQ, .mask = ~(size - 1), .value = begin});
            begin |= size;
        }
    }
}

/* Values from `begin` up: not those of the blocks below it, where these are few; else as blocks. */
static void add_from(struct clauses *to, uint32_t arg, uint64_t begin)
{
    struct clauses below;
    clauses_set(&below, false);
    add_below(&below, arg, begin);
    if (below.n < CLAUSE_COMPARISONS_MAX) {
        clauses_not(&below);
        clauses_or(to, &below);
        return;
    }
    for (unsigned bit = 0; bit < 64 && begin != 0; bit++) {
        uint64_t size = UINT64_C(1) << bit;
        if (begin & size) {
            add_one(to, (struct seccomp_condition){
                            .arg = arg, .op = OP_MASKED_EQ, .mask = ~(size - 1), .value = begin});
            begin += size;
        }
    }
}

void clauses_compare(struct clauses *ret, const struct seccomp_condition *condition)
{
    uint64_t value = condition->value;
    struct seccomp_condition whole = *condition;
    clauses_set(ret, false);
    switch (condition->op) {
    case OP_EQ:
    case OP_NE:
        whole.mask = UINT64_MAX;
        whole.op = condition->op == OP_EQ ? OP_MASKED_EQ : OP_MASKED_NE;
        add_one(ret, whole);
        return;
    case OP_MASKED_EQ:
    case OP_MASKED_NE:
        add_one(ret, whole);
        return;
    case OP_LT:
        add_below(ret, condition->arg, value);
        return;
    case OP_LE:
        if (value == UINT64_MAX) {
            clauses_set(ret, true);
            return;
        }
        add_below(ret, condition->arg, value + 1);
        return;
    case OP_GT:
        if (value < UINT64_MAX) {
            add_from(ret, condition->arg, value + 1);
        }
        return;
    case OP_GE:
        if (value == 0) {
            clauses_set(ret, true);
            return;
        }
        add_from(ret, condition->arg, value);
        return;
    }
}

void clauses_or(struct clauses *to, const struct clauses *from)
{
    to->inexact |= from->inexact;
    for (size_t i = 0; !to->inexact && i < from->n; i++) {
        add_clause(to, &from->rows[i]);
    }
}

static void add_both(struct clauses *to, const struct clause *a, const struct clause *b)
{
    struct clause both = *a;
    for (size_t i = 0; i < b->n; i++) {
        switch (clause_add(&both, b->rows[i])) {
        case ADDED:
            break;
        case NEVER:
            return;
        case TOO_MANY:
            to->inexact = true;
            return;
        }
    }
    add_clause(to, &both);
}

void clauses_and(struct clauses *to, const struct clauses *from)
{
    struct clauses both = {.inexact = to->inexact || from->inexact};
    for (size_t i = 0; !both.inexact && i < to->n * from->n; i++) {
        add_both(&both, &to->rows[i / from->n], &from->rows[i % from->n]);
    }
    *to = both;
}

void clauses_not(struct clauses *clauses)
{
    struct clauses ret = {.inexact = clauses->inexact};
    if (ret.inexact) {
        return;
    }
    clauses_set(&ret, true);
    for (size_t i = 0; i < clauses->n; i++) {
        struct clauses other = {.n = 0};
        for (size_t k = 0; k < clauses->rows[i].n; k++) {
            add_one(&other, opposite(&clauses->rows[i].rows[k]));
        }
        clauses_and(&ret, &other);
    }
    *clauses = ret;
}

void clauses_fit(struct clauses *clauses, const uint64_t bits[6])
{
    struct clauses ret = {.inexact = clauses->inexact};
    for (size_t i = 0; !ret.inexact && i < clauses->n; i++) {
        struct clauses all, one;
        clauses_set(&all, true);
        for (size_t k = 0; k < clauses->rows[i].n; k++) {
            struct seccomp_condition row = clauses->rows[i].rows[k];
            row.mask &= bits[row.arg];
            clauses_set(&one, false);
            add_one(&one, row);
            clauses_and(&all, &one);
        }
        clauses_or(&ret, &all);
    }
    *clauses = ret;
}
