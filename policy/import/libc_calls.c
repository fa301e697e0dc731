/* A table: what glibc (2.31 to 2.41) and musl call as programs start and end. Runs in the command line. Older
 * policies have names that these libraries no longer use, and end the program by those that they do. */
#include "policy/import/libc_calls.h"

#include <stddef.h>

const struct libc_call libc_calls[LIBC_CALLS_MAX] = {
    {.call = "newfstatat", .twin = "stat", .other_twin = "fstat", .harmless = true},
    {.call = "fstat", .twin = "stat", .harmless = true},
    {.call = "openat", .twin = "open", .harmless = true},
    {.call = "statx", .twin = "stat", .other_twin = "lstat", .without = true},
    {.call = "faccessat", .twin = "access"},
    {.call = "faccessat2", .twin = "access", .without = true},
    {.call = "readlinkat", .twin = "readlink"},
    {.call = "getdents64", .twin = "getdents"},
    {.call = "exit_group", .twin = "exit", .harmless = true},
    {.call = "exit", .twin = "exit_group", .harmless = true},
    {.call = "brk", .harmless = true},
    {.call = "mmap", .harmless = true},
    {.call = "munmap", .harmless = true},
    {.call = "mprotect", .harmless = true},
    {.call = "arch_prctl", .harmless = true},
    {.call = "access", .harmless = true},
    {.call = "read", .harmless = true},
    {.call = "pread64", .harmless = true},
    {.call = "close", .harmless = true},
    {.call = "futex", .harmless = true},
    {.call = "set_tid_address", .harmless = true},
    {.call = "rt_sigreturn", .harmless = true},
    {.call = "set_robust_list", .harmless = true, .without = true},
    {.call = "rseq", .harmless = true, .without = true},
    {.call = "getrandom", .harmless = true, .without = true},
    {.call = "prlimit64", .without = true},
    {.call = "clone3", .without = true},
    {.call = "close_range", .without = true},
    {.call = NULL},
};
