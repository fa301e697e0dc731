/* struct clauses: a condition on the arguments of a system call, as a choice of comparisons that all hold.
 * What any of the imported languages can say about arguments becomes this, and this becomes `where`. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/policy/policy_file.h"

#define CLAUSES_MAX            64
#define CLAUSE_COMPARISONS_MAX 8

/* All hold. Of one argument there is at most one OP_MASKED_EQ, and it comes before those that are
 * OP_MASKED_NE; there are no other operators. Without comparisons: always. */
struct clause {
    struct seccomp_condition rows[CLAUSE_COMPARISONS_MAX];
    size_t n;
};

/* Any of them; without any: never. Some 13 KiB. */
struct clauses {
    struct clause rows[CLAUSES_MAX];
    size_t n;
    bool inexact; /* it was too much to be said so: the rows mean nothing */
};

void clauses_set(struct clauses *clauses, bool always);
/* A comparison with any operator, of 64 bits. */
void clauses_compare(struct clauses *ret, const struct seccomp_condition *condition);
void clauses_or(struct clauses *to, const struct clauses *from);
void clauses_and(struct clauses *to, const struct clauses *from);
void clauses_not(struct clauses *clauses);
/* Looks only at those bits of each argument that the kernel reads. */
void clauses_fit(struct clauses *clauses, const uint64_t bits[6]);
bool clauses_always(const struct clauses *clauses);
