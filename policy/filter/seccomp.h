/* Names, numbers and BPF: the only part of the program that knows libseccomp. policy_syscall_name() is
 * public, in policy/policy.h. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "config/policy/policy_file.h"

struct err;
struct policy_filter;
struct policy_spec;

/* The number of a call on the native architecture, or -1; `ret_known` (may be NULL): some architecture has
 * it. */
int policy_syscall_number(const char *name, bool *ret_known);
/* The native architecture in libseccomp's words ("x86_64") and as AUDIT_ARCH_*. */
const char *policy_native_architecture(void);
uint32_t policy_native_arch(void);

/* The native architecture is among those that the policy was written for (all, if it names none), and no
 * foreign ABI of the same machine is: its calls are never filtered, they bring SIGSYS. */
int seccomp_check_architectures(const struct policy_spec *spec, struct err *reterr);

/* What a filter returns for an action: SECCOMP_RET_*, with the errno. `errno_name`: for ERRNO; NULL is EPERM.
 */
uint32_t seccomp_answer(enum seccomp_action_kind kind, const char *errno_name);

/* Turns the entries of `filter`, which do not contradict each other, into its instructions. */
int seccomp_assemble(const struct policy_spec *spec, struct policy_filter *filter, struct err *reterr);
