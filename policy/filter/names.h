/* Names and numbers of system calls, the native architecture, what a filter returns. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/policy/policy_file.h"

/* The number of a call on the native architecture, or -1; `ret_known` (may be NULL): some architecture has
 * it. */
int policy_syscall_number(const char *name, bool *ret_known);
/* True if an architecture, in libseccomp's words, has the call. */
bool policy_syscall_is_of(const char *architecture, const char *name);
/* "openat" for a number of an AUDIT_ARCH_*; never NULL ("syscall_999"). Into `ret` of `size` bytes. */
const char *policy_syscall_name(uint32_t arch, int nr, char *ret, size_t size);
/* The native architecture in libseccomp's words ("x86_64") and as AUDIT_ARCH_*. */
const char *policy_native_architecture(void);
uint32_t policy_native_arch(void);

/* What a filter returns for an action: SECCOMP_RET_*, with the errno. `errno_name`: for ERRNO; NULL is EPERM.
 */
uint32_t seccomp_answer(enum seccomp_action_kind kind, const char *errno_name);

/* "no such WHAT; did you mean NEAR?", or without a question where `near` is NULL. */
#define POLICY_NO_SUCH_MAX 160
const char *policy_no_such(const char *what, const char *near, char ret[POLICY_NO_SUCH_MAX]);
