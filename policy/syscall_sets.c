/* The table of syscall_sets.def and the ways to look into it. Pure data: which of the names exist on this
 * machine is policy/seccomp.c's question. */
#include "policy/syscall_sets.h"

#include <string.h>

#include "config/textformat.h"
#include "jail/base/cleanup.h"

static const struct syscall_row rows[] = {
#define SET(set, why)    {.name = set, .reason = why},
#define DANGER(set, why) {.name = set, .reason = why, .danger = true},
#define CALL(call)       {.name = #call},
#include "policy/syscall_sets.def"
#undef SET
#undef DANGER
#undef CALL
    {.reason = ""},
};

const struct syscall_row *syscall_sets(void)
{
    return rows;
}

const struct syscall_row *syscall_set_find(const char *name)
{
    for (const struct syscall_row *row = rows; row->name; row++) {
        if (row->reason && strcmp(row->name, name) == 0) {
            return row;
        }
    }
    return NULL;
}

const struct syscall_row *syscall_set_next(const struct syscall_row *row)
{
    return row[1].reason ? NULL : row + 1;
}

const struct syscall_row *syscall_set_danger(const char *call)
{
    const struct syscall_row *set = rows;
    for (const struct syscall_row *row = rows; row->name; row++) {
        if (row->reason) {
            set = row;
        } else if (set->danger && strcmp(row->name, call) == 0) {
            return set;
        }
    }
    return NULL;
}

const char *syscall_set_did_you_mean(const char *name)
{
    const char *names[ARRAY_SIZE(rows)];
    size_t n_names = 0;
    for (const struct syscall_row *row = rows; row->name; row++) {
        if ((row->reason != NULL) == (name[0] == '@')) {
            names[n_names++] = row->name;
        }
    }
    return textformat_did_you_mean(name, names, n_names);
}
