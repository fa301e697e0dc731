/* The shipped policies as they came out of reading and compiling them while the program was built. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "policy/filter.h"

struct embedded_policy {
    const char *name;   /* of the shipped policy; NULL in the last row */
    const char *sha256; /* of the file's bytes */
    const unsigned char *packed;
    size_t packed_size; /* the file as a binary message */
    uint32_t arch;      /* AUDIT_ARCH_* that the filter is for */
    struct policy_filter filter;
};

/* libpolicy's own table is empty; the program is linked with the one that policy/embed/embed.c writes. */
extern const struct embedded_policy policy_embedded[];
