/* The shipped syscall sets as one flat table: a set's row, then its members' rows, up to the next set's row.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "config/policy/policy_file.h"

#define SYSCALL_ROW_CONDITIONS 2

enum syscall_set_kind {
    SET_SAFE,    /* what a program may have: conditions say with which arguments */
    SET_PARTIAL, /* calls with these arguments alone, whatever a rule does with them */
    SET_DANGER,  /* no shipped policy allows a member */
};

struct syscall_row {
    const char *name;           /* "@basic-io" or "read"; NULL in the last row */
    const char *reason;         /* why the set exists; NULL for a member */
    enum syscall_set_kind kind; /* of a set */
    const char *shown;          /* of a member with conditions: "SOL_SOCKET, SO_KEEPALIVE"; else NULL */
    /* All must hold. A call may have several rows: any of them may. */
    struct seccomp_condition conditions[SYSCALL_ROW_CONDITIONS];
    size_t n_conditions;
};

/* The first row; the table ends with a row whose name is NULL. */
const struct syscall_row *syscall_sets(void);
/* The row of a set, or NULL. */
const struct syscall_row *syscall_set_find(const char *name);
/* The first member behind a set's row, or the next member behind a member; NULL: no more. */
const struct syscall_row *syscall_set_next(const struct syscall_row *row);
/* The DANGER set that holds this call, or NULL. */
const struct syscall_row *syscall_set_danger(const char *call);
/* The set whose name is nearest to a mistyped one, or the call; NULL: none is near. */
const char *syscall_set_did_you_mean(const char *name);
