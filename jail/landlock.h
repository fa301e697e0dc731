/* Landlock, the second wall inside a jail. */
#pragma once

#include <stdint.h>

/* The newest version of its interface that we know. */
#define LANDLOCK_ABI_NEWEST 7u

/* The version that the kernel has, at most that one; 0: none that we use (version 1 forbids every rename
 * between directories). */
uint32_t landlock_abi(void);
