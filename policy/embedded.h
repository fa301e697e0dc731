/* Filters of the shipped policies, compiled while the program was built. */
#pragma once

#include <stdint.h>

struct sock_filter;

struct embedded_filter {
    const char *sha256; /* of the policy file's bytes; NULL in the last row */
    uint32_t arch;      /* AUDIT_ARCH_* */
    uint32_t length;
    const struct sock_filter *instructions;
};

/* libpolicy's own table is empty; the program is linked with the one that policy/embed/embed.c writes. */
extern const struct embedded_filter policy_embedded_filters[];
