/* A policy's seccomp rules as BPF. */
#pragma once

struct err;
struct policy_filter;
struct policy_spec;

/* Compiles the rules of `spec`, as policy_filter_decide() decides, for the native architecture. That must be
 * among those that the policy was written for (all, if it names none), and no foreign ABI of the same machine
 * may be: calls of every other ABI, x32 and i386 included, are never filtered, they bring SIGSYS. */
int policy_filter_compile(const struct policy_spec *spec, struct policy_filter *ret, struct err *reterr);
