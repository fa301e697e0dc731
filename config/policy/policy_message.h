/* The parts of struct policy_spec from their messages; policy_file.c is alone in calling this. */
#pragma once

struct Immure__Policy;
struct checker;
struct policy_spec;

/* Each holds its part to its rules and copies it. What a failure leaves in the spec, policy_spec_free()
 * frees. */
int policy_mounts_from_message(struct checker *checker, const struct Immure__Policy *message,
                               struct policy_spec *spec);
int policy_seccomp_from_message(struct checker *checker, const struct Immure__Policy *message,
                                struct policy_spec *spec);

void policy_mounts_free(struct policy_spec *spec);
void policy_seccomp_free(struct policy_spec *spec);
