/* The table of syscall_sets.def and the ways to look into it. Pure data: which of the names exist on this
 * machine is policy/filter/names.c's question. */
#include "policy/filter/syscall_sets.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>

#include "config/format/textformat.h"
#include "jail/base/cleanup.h"

/* Comparisons of an argument of which the kernel reads 32 bits, as the table has them. */
#define MASK32(number, bits, wanted)                                                                         \
    {                                                                                                        \
        .arg = (number), .op = OP_MASKED_EQ, .mask = (uint32_t)(bits), .value = (wanted)                     \
    }
#define IS32(number, wanted) MASK32(number, UINT32_MAX, wanted)
/* Of 64 bits. */
#define MASK64(number, bits, wanted)                                                                         \
    {                                                                                                        \
        .arg = (number), .op = OP_MASKED_EQ, .mask = (bits), .value = (wanted)                               \
    }

static const struct syscall_row rows[] = {
#define SET(set, why)     {.name = set, .reason = why},
#define PARTIAL(set, why) {.name = set, .reason = why, .kind = SET_PARTIAL},
#define DANGER(set, why)  {.name = set, .reason = why, .kind = SET_DANGER},
#define CALL(call)        {.name = #call},
#define WHERE(call, arguments, one)                                                                          \
    {.name = #call, .shown = arguments, .conditions = {one}, .n_conditions = 1},
#define WHERE_BOTH(call, arguments, one, other)                                                              \
    {.name = #call, .shown = arguments, .conditions = {one, other}, .n_conditions = 2},
#include "policy/filter/syscall_sets.def"
#undef SET
#undef PARTIAL
#undef DANGER
#undef CALL
#undef WHERE
#undef WHERE_BOTH
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
        } else if (set->kind == SET_DANGER && strcmp(row->name, call) == 0) {
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
