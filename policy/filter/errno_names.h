/* Error numbers as a policy names them. */
#pragma once

#include <stdint.h>

/* The number of "ENOSYS" or "38"; NULL is EPERM. 0: neither a name nor a number in range. */
uint32_t policy_errno_number(const char *text);
/* The nearest name to a mistyped one, or NULL. */
const char *policy_errno_did_you_mean(const char *name);
