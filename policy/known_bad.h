/* System calls with arguments that no program in a jail should be able to make: what `immure policy lint`
 * tries on a policy's compiled filter. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct known_bad_call {
    const char *syscall; /* the kernel's name; calls that this architecture lacks are left out by who asks */
    const char *shown;   /* "clone(CLONE_NEWUSER)" */
    const char *consequence;
    uint64_t arguments[6];
    /* An argument of which the kernel reads 32 bits, so that a caller may set the others; 6: none. */
    unsigned narrow;
};

/* Rows of one system call stand together. */
extern const struct known_bad_call known_bad_calls[];
extern const size_t n_known_bad_calls;
