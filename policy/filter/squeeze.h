/* The same filter in fewer instructions. */
#pragma once

#include <stdint.h>

struct sock_filter;

/* Rewrites a filter for one architecture (AUDIT_ARCH_*) in place, with the same answer to every call. Leaves
 * it as it is where it has a form that is not understood, or where nothing is gained. */
void filter_squeeze(struct sock_filter *instructions, uint32_t *length, uint32_t arch);
