/* The shipped policies as they came out of reading and compiling them while the program was built. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "config/policy/policy_file.h"
#include "policy/filter/filter.h"

struct embedded_policy {
    const char *name; /* of the shipped policy; NULL in the last row */
    struct policy_spec spec;
    uint32_t arch; /* AUDIT_ARCH_* that the filter is for */
    struct policy_filter filter;
    uint64_t capabilities;
    uint32_t bpf;
    const unsigned char *tree; /* encoded; capabilities, bpf and tree are struct policy's */
    size_t tree_size;
};

/* libpolicy's own table is empty; the program is linked with the one that policy/embed/embed.c writes. */
extern const struct embedded_policy policy_embedded[];
