/* The rules that would allow a call that was denied. */
#pragma once

#include <stdint.h>

#include "policy/filter/call_text.h"

struct buf;

/* Why no policy should allow the call of that name; NULL: some may. The text lives as long as the program. */
const char *policy_never(const char *name, const uint64_t arguments[6]);

/* Appends a line about call `nr` of an AUDIT_ARCH_*, which was denied `count` times with these arguments (0
 * where they tell nothing), and below it the rules that would allow it, to be put into a policy's `seccomp`;
 * or, for a call that no policy should have, the reason. */
void policy_hint(uint32_t arch, int nr, const uint64_t arguments[6], uint64_t count, struct buf *ret);
