/* The table of a jail's denied system calls: counted by PID 1, and read by the parent when the jail has
 * ended, in whatever way: it lies in memory that outlives whoever is killed. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct seccomp_data;

#define JAIL_DENIED_MAX 64 /* different system calls counted per job; further ones count under nr -1 */

struct jail_denied {
    int32_t nr;    /* of `arch`; -1: all that did not fit */
    uint32_t arch; /* AUDIT_ARCH_* */
    uint64_t count;
};

/* One of them with its arguments, where those tell what it wanted. */
#define JAIL_DENIED_CALLS_MAX 32 /* different ones told per job, further ones are only counted above */
#define JAIL_DENIED_EACH_MAX  8  /* and of one system call */

struct jail_denied_call {
    int32_t nr;
    uint32_t arch;
    uint64_t count;
    uint64_t ended;   /* how many of them ended their process */
    uint64_t args[6]; /* 0 where denied_told_arguments() has no bit */
};

struct denied_table {
    uint32_t n_rows, n_calls;
    struct jail_denied rows[JAIL_DENIED_MAX];
    struct jail_denied_call calls[JAIL_DENIED_CALLS_MAX];
};

/* Which arguments tell what the program wanted of it: a bit each. The others are addresses, sizes and
 * descriptors, which differ from call to call. All of the kinds that config/policy/constants.h names. */
unsigned denied_told_arguments(int32_t nr);

/* PID 1's side, raw system calls only. Makes an empty table: a sealed file, and where it is mapped. 0 or
 * -errno and `*ret_call`, the system call that failed. */
int denied_new(struct denied_table **ret, int *ret_fd, const char **ret_call);
/* One more of these; `ends`: its process is ended for it. */
void denied_count(struct denied_table *table, const struct seccomp_data *call, bool ends);
/* None of any. */
void denied_clear(struct denied_table *table);

/* The parent's side, to which the file comes from a process that it need not believe. Whether reading it is
 * safe: memory, of this size for ever. */
bool denied_is_table(int fd);
/* What has been counted. Where there is no sense in it, nothing. Returns 0 or -errno. */
int denied_read(int fd, struct denied_table *ret);
