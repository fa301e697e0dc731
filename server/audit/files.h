/* The files of an audit trail: what they are called, and what they begin and end with. */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/audit/chain.h"

struct audit_end {
    bool found;             /* a whole line */
    struct audit_link last; /* it, but for the hash where a torn one follows: that one's */
    size_t torn_bytes;
};

/* -EINVAL: it ends in something else than a chain. */
int audit_find_end(int fd, uint64_t *ret_bytes, struct audit_end *ret);
/* When its first line was written, in milliseconds since the epoch; 0: nobody knows. */
uint64_t audit_find_beginning_ms(int fd);

/* A lock that goes with this process, whatever was forked from it. -errno: another one has it. */
int audit_lock(int fd);
/* False: the file of that name is another one by now, or there is none. */
bool audit_is_in_place(int directory, const char *name, int fd);

/* The name of a file that has been left: that of the trail, and the number of its last line. */
void audit_rotated_name(const char *name, uint64_t number, char ret[static NAME_MAX + 1]);
/* The number of the file that was left last, of those called after `name`; 0: there is none. */
uint64_t audit_rotated_newest(int directory, const char *name);
/* That of the eldest, and how many there are. */
uint64_t audit_rotated_eldest(int directory, const char *name, size_t *ret_n);
