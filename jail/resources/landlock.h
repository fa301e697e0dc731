/* Landlock, the second wall inside a jail. */
#pragma once

#include <stdint.h>

/* The version of its interface that the kernel has, at most JAIL_LANDLOCK_NEWEST; 0: none that we use
 * (version 1 forbids every rename between directories). */
uint32_t landlock_abi(void);
