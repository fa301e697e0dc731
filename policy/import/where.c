/* Comparisons of arguments in the kernel's words. Runs in the command line. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "config/policy/constants.h"
#include "config/policy/policy_file.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "policy/import/calls.h"
#include "policy/import/clauses.h"

void where_bits(const char *call, uint64_t ret[6])
{
    for (uint32_t i = 0; i < 6; i++) {
        const struct named_argument *argument = argument_at(call, i);
        ret[i] = argument && argument->bits < 64 ? (UINT64_C(1) << argument->bits) - 1 : UINT64_MAX;
    }
}

static void put_number(struct buf *ret, uint64_t value)
{
    buf_printf(ret, value < 1024 ? "%" PRIu64 : "0x%" PRIx64, value);
}

/* Constants that are flags, as `where` has them. */
static bool has_flags(const char *kind)
{
    static const char *const kinds[] = {"clone", "prot", "map", "open", "memfd", "persona"};
    for (size_t i = 0; kind && i < ARRAY_SIZE(kinds); i++) {
        if (strcmp(kind, kinds[i]) == 0) {
            return true;
        }
    }
    return false;
}

/* Whether every bit has a name of its own. */
static bool bits_have_names(const char *kind, uint64_t value)
{
    for (unsigned bit = 0; bit < 64; bit++) {
        if (value & UINT64_C(1) << bit && !constant_name(kind, UINT64_C(1) << bit)) {
            return false;
        }
    }
    return value != 0;
}

/* A name, names joined by '|', or a number. */
static void put_value(struct buf *ret, const char *kind, uint64_t value)
{
    const char *name = kind ? constant_name(kind, value) : NULL, *between = "";
    buf_putc(ret, '"');
    if (name) {
        buf_puts(ret, name);
    } else if (has_flags(kind) && bits_have_names(kind, value)) {
        for (unsigned bit = 0; bit < 64; bit++) {
            if (value & UINT64_C(1) << bit) {
                buf_printf(ret, "%s%s", between, constant_name(kind, UINT64_C(1) << bit));
                between = "|";
            }
        }
    } else {
        put_number(ret, value);
    }
    buf_putc(ret, '"');
}

static void put_flags(struct buf *ret, const char *field, const char *kind, uint64_t flags)
{
    unsigned n = 0;
    for (unsigned bit = 0; bit < 64; bit++) {
        if (flags & UINT64_C(1) << bit) {
            buf_printf(ret, n++ == 0 ? " %s: [" : ", ", field);
            put_value(ret, kind, UINT64_C(1) << bit);
        }
    }
    buf_puts(ret, n > 0 ? "]" : "");
}

static void put_mask(struct buf *ret, const char *kind, uint64_t mask, uint64_t whole)
{
    if (mask == whole) {
        return;
    }
    buf_puts(ret, " mask: ");
    put_value(ret, kind, mask);
}

/* Those that the argument may not be, of the same bits. Returns how many rows it wrote. */
static size_t put_others(struct buf *ret, const char *kind, const struct clause *clause, size_t first)
{
    size_t n = 0;
    const struct seccomp_condition *row = &clause->rows[first];
    for (size_t i = first; i < clause->n; i++) {
        const struct seccomp_condition *other = &clause->rows[i];
        if (other->op == OP_MASKED_NE && other->arg == row->arg && other->mask == row->mask) {
            buf_puts(ret, n++ == 0 ? " not_in: [" : ", ");
            put_value(ret, kind, other->value);
        }
    }
    buf_putc(ret, ']');
    return n;
}

static bool was_before(const struct clause *clause, size_t index)
{
    const struct seccomp_condition *row = &clause->rows[index];
    for (size_t i = 0; i < index; i++) {
        if (clause->rows[i].op == row->op && clause->rows[i].arg == row->arg &&
            clause->rows[i].mask == row->mask) {
            return true;
        }
    }
    return false;
}

static void put_row(const char *call, const struct clause *clause, size_t index, struct buf *ret)
{
    uint64_t whole[6];
    where_bits(call, whole);
    const struct seccomp_condition *row = &clause->rows[index];
    const struct named_argument *argument = argument_at(call, row->arg);
    const char *kind = argument ? argument->kind : NULL;
    buf_puts(ret, " where { arg: ");
    if (argument) {
        buf_printf(ret, "\"%s\"", argument->name);
    } else {
        buf_printf(ret, "\"%" PRIu32 "\"", row->arg);
    }
    if (row->op == OP_MASKED_NE) {
        put_mask(ret, kind, row->mask, whole[row->arg]);
        put_others(ret, kind, clause, index);
    } else if (has_flags(kind) && row->mask != whole[row->arg]) {
        put_flags(ret, "all_of", kind, row->value);
        put_flags(ret, "none_of", kind, row->mask & ~row->value);
    } else {
        put_mask(ret, kind, row->mask, whole[row->arg]);
        buf_puts(ret, " in: ");
        put_value(ret, kind, row->value);
    }
    buf_puts(ret, " }");
}

bool where_is_choice(const char *call, const struct clause *a, const struct clause *b)
{
    const struct named_argument *argument = a->n == 1 ? argument_at(call, a->rows[0].arg) : NULL;
    uint64_t whole[6];
    where_bits(call, whole);
    return a->n == 1 && b->n == 1 && a->rows[0].op == OP_MASKED_EQ && b->rows[0].op == OP_MASKED_EQ &&
           a->rows[0].arg == b->rows[0].arg && a->rows[0].mask == b->rows[0].mask &&
           (a->rows[0].mask == whole[a->rows[0].arg] || !has_flags(argument ? argument->kind : NULL));
}

void where_write_choice(const char *call, const struct clause *first, const struct clause *end,
                        struct buf *ret)
{
    const struct named_argument *argument = argument_at(call, first->rows[0].arg);
    struct buf one = BUF_INIT;
    put_row(call, first, 0, &one);
    if (!one.failed) {
        /* All but the value and " }". */
        size_t kept = (size_t)(strstr(one.data, " in: ") - one.data) + strlen(" in: ");
        buf_append(ret, one.data, kept);
    }
    ret->failed |= one.failed;
    buf_free(&one);
    size_t n = 0;
    for (const struct clause *clause = first; clause < end; clause++) {
        if (where_is_choice(call, first, clause)) {
            buf_puts(ret, n++ == 0 ? "[" : ", ");
            put_value(ret, argument ? argument->kind : NULL, clause->rows[0].value);
        }
    }
    buf_puts(ret, "] }");
}

void where_write(const char *call, const struct clause *clause, struct buf *ret)
{
    for (size_t i = 0; i < clause->n; i++) {
        if (clause->rows[i].op == OP_MASKED_EQ || !was_before(clause, i)) {
            put_row(call, clause, i, ret);
        }
    }
}
