/* The kernel's names for the arguments of system calls and for their values: one table, for policies and for
 * what is said about them. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct suggestion;

/* The bits of a socket's type that are no flags. */
#define SOCK_TYPE_MASK 0xf

/* An argument of a system call. */
struct named_argument {
    const char *call, *name; /* "ioctl", "request" */
    uint32_t number;         /* 0 to 5 */
    uint32_t bits;           /* that the kernel reads: 16, 32 or 64 */
    const char *kind;        /* of its constants */
};

/* The argument by its name or its number in digits; NULL: the table does not have it. */
const struct named_argument *argument_find(const char *call, const char *name);
const struct named_argument *argument_at(const char *call, uint32_t number);
/* Offers the names of a call's arguments. */
void argument_suggest(const char *call, struct suggestion *suggestion);

/* All of them in turn; NULL: no more. */
const struct named_argument *argument_row(size_t index);

/* The value of a constant of that kind; false: there is none. `kind` NULL: of any. */
bool constant_find(const char *kind, const char *name, size_t length, uint64_t *ret);
/* The name of exactly that value, or NULL. */
const char *constant_name(const char *kind, uint64_t value);
/* Whether values of that kind are flags, of which several may be set. Types of sockets are not: those have
 * both. */
bool constant_is_flag(const char *kind);
/* The names of a kind in turn; NULL: no more. */
const char *constant_row(const char *kind, size_t index);
void constant_suggest(const char *kind, struct suggestion *suggestion);
