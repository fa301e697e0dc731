/* The parts of struct policy_spec from their messages; policy_file.c is alone in calling this. */
#pragma once

#include <stddef.h>

#include "config/policy/policy_file.h"

struct Immure__Policy;
struct Immure__SeccompRule;
struct checker;
struct named_argument;
struct policy_spec;

/* Each holds its part to its rules and copies it. What a failure leaves in the spec, policy_spec_free()
 * frees. */
int policy_mounts_from_message(struct checker *checker, const struct Immure__Policy *message,
                               struct policy_spec *spec);
int policy_rlimits_from_message(struct checker *checker, const struct Immure__Policy *message,
                                struct policy_spec *spec);
int policy_egress_from_message(struct checker *checker, const struct Immure__Policy *message,
                               struct policy_spec *spec);
int policy_seccomp_from_message(struct checker *checker, const struct Immure__Policy *message,
                                struct policy_spec *spec);

/* The ways to meet all of a rule's `where`: each a list of conditions. */
#define WHERE_CHOICES_MAX    64u
#define WHERE_CONDITIONS_MAX 16u
struct where_choices {
    struct seccomp_condition rows[WHERE_CHOICES_MAX][WHERE_CONDITIONS_MAX];
    size_t n, n_conditions; /* of each */
};

/* Without `where` there is one choice, without conditions, and no words. */
int policy_where_from_message(struct checker *checker, const struct Immure__SeccompRule *rule,
                              struct where_choices *ret, char **ret_words);

/* The value that a text says, of names and numbers joined by '|'. NULL: an argument without a name. */
int policy_value_from_text(struct checker *checker, const struct named_argument *argument, const char *text,
                           uint64_t *ret);

void policy_mounts_free(struct policy_spec *spec);
void policy_egress_free(struct policy_spec *spec);
void policy_seccomp_free(struct policy_spec *spec);
