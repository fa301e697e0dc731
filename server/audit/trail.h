/* struct audit_trail: the file that audit_log names, written as a chain, rotated, and taken up again after a
 * restart. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct audit_trail;
struct err;
struct log;

/* 0: there is no such limit. */
struct audit_trail_limits {
    uint64_t max_bytes;  /* of a file, before it is left */
    uint64_t keep_files; /* that have been left */
    uint64_t keep_days;  /* since their last lines; a file is left after a day then */
};

struct audit_trail_options {
    const char *path;
    struct audit_trail_limits limits;
    struct log *const *log; /* where troubles are told; outlives the trail */
    bool only_look;         /* make no file, but say whether one could be made; the trail is not begun then */
};

/* Opens the file, which is made where there is none, and finds the chain's end in it, or in the file that was
 * rotated last. Nothing is written yet. ERR_CONFIG: it cannot be opened, or ends in no line of a chain. */
int audit_trail_open(const struct audit_trail_options *options, struct audit_trail **ret, struct err *reterr);
/* Takes the chain up. ERR_CONFIG: another process writes to it, or nobody can. `reason` is a constant. */
int audit_trail_begin(struct audit_trail *trail, const char *reason, struct err *reterr);
/* Says that the end is a proper one, if it was begun. Takes NULL. */
void audit_trail_close(struct audit_trail *trail);
static inline void audit_trail_closep(struct audit_trail **trail)
{
    audit_trail_close(*trail);
}

const char *audit_trail_path(const struct audit_trail *trail);
/* Lines that could not be written, since it was opened. */
uint64_t audit_trail_lost(const struct audit_trail *trail);
void audit_trail_set_limits(struct audit_trail *trail, const struct audit_trail_limits *limits);
/* What time brings: files are left and removed. True: there is more to do at once. */
bool audit_trail_tend(struct audit_trail *trail);

/* One line that audit_chain_takes(). What cannot be written is counted, and the trail says so as soon as it
 * can. */
void audit_trail_append(struct audit_trail *trail, const char *line, size_t size);
/* The same for a line without which nothing is to happen: -errno, and it is not counted, where it, or what
 * follows from it, may not be written. */
int audit_trail_demand(struct audit_trail *trail, const char *line, size_t size);
/* An errno: why a line could not be written, or a file not be left, and audit_trail_mend() has not yet said
 * 0. 0: all is well. */
int audit_trail_failure(const struct audit_trail *trail);
int audit_trail_mend(struct audit_trail *trail);

/* Where somebody has moved the file away, a new one is made in its place. */
void audit_trail_hangup(struct audit_trail *trail);
