/* What C libraries of today call as a program starts and ends. */
#pragma once

#include <stdbool.h>

struct libc_call {
    const char *call;
    const char *twin, *other_twin; /* calls that can do all that this one can; NULL: none */
    bool harmless;                 /* a part of starting and ending that reaches nothing else: --with-libc */
    bool without;                  /* the library does without where the kernel does not have it (ENOSYS) */
};

#define LIBC_CALLS_MAX 48
/* Ends with a row without a call. */
extern const struct libc_call libc_calls[LIBC_CALLS_MAX];
