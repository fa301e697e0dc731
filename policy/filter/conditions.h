/* Argument conditions of seccomp rules: are they sound, can two rules ever hold at once, and what do they say
 * in words. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;
struct seccomp_condition;
struct seccomp_rule;

#define SECCOMP_ARGS 6

/* NULL, or the sentence that says what is wrong with the rule's conditions. */
const char *conditions_problem(const struct seccomp_rule *rule);

/* True if no call can satisfy both rules: some argument is compared by both, and no value satisfies both
 * comparisons. False where that cannot be shown. */
bool conditions_disjoint(const struct seccomp_rule *a, const struct seccomp_rule *b);

bool condition_holds(const struct seccomp_condition *condition, uint64_t value);

/* False if the rule holds for no call with these arguments, of which those count whose bit in `known` is set;
 * `*ret_sure`: it holds for each of them. */
bool conditions_may_hold(const struct seccomp_rule *rule, unsigned known,
                         const uint64_t arguments[SECCOMP_ARGS], bool *ret_sure);

/* The kernel's name for what a condition of the rule compares with, or NULL. */
const char *condition_constant(const struct seccomp_rule *rule, const struct seccomp_condition *condition);

/* In the words of `where`, if the rule has it; or "where request is TCGETS"; or, without names, "where
 * argument 0 is 1 and argument 1 & 0xf000 is 0x1000", or nothing without conditions. */
void conditions_print(const struct seccomp_rule *rule, struct buf *ret);
