/* How much memory this server may use. */
#pragma once

#include <stdint.h>

/* Bytes: the host's memory, or the least limit of the cgroup directory `cgroup` and of those above it, if
 * that is less. NULL: of the root of what a container sees. 0: nobody knows. */
uint64_t host_memory_bytes(const char *cgroup);
