/* The table of a jail's denied system calls: counted by PID 1, and read by the parent when the jail has
 * ended, in whatever way: it lies in memory that outlives whoever is killed. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define JAIL_DENIED_MAX 64 /* different system calls counted per job; further ones count under nr -1 */

struct jail_denied {
    int32_t nr;    /* of `arch`; -1: all that did not fit */
    uint32_t arch; /* AUDIT_ARCH_* */
    uint64_t count;
};

struct denied_table {
    uint32_t n_rows;
    struct jail_denied rows[JAIL_DENIED_MAX];
};

/* PID 1's side, raw system calls only. Makes an empty table: a sealed file, and where it is mapped. 0 or
 * -errno and `*ret_call`, the system call that failed. */
int denied_new(struct denied_table **ret, int *ret_fd, const char **ret_call);
/* One more of these. */
void denied_count(struct denied_table *table, int32_t nr, uint32_t arch);
/* None of any. */
void denied_clear(struct denied_table *table);

/* The parent's side, to which the file comes from a process that it need not believe. Whether reading it is
 * safe: memory, of this size for ever. */
bool denied_is_table(int fd);
/* What has been counted. Returns the number of rows, none where there is no sense in them, or -errno. */
int denied_read(int fd, struct jail_denied ret[JAIL_DENIED_MAX]);
