/* struct audit_trail: the file that audit_log names, written as a chain, rotated, and taken up again after a
 * restart. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct audit_trail;
struct err;
struct log;

struct audit_trail_options {
    const char *path;
    uint64_t max_bytes;     /* of a file; 0: it grows for ever */
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
void audit_trail_set_max_bytes(struct audit_trail *trail, uint64_t max_bytes);

/* One line that audit_chain_takes(). What cannot be written is counted, and the trail says so as soon as it
 * can. */
void audit_trail_append(struct audit_trail *trail, const char *line, size_t size);

/* Where somebody has moved the file away, a new one is made in its place. */
void audit_trail_hangup(struct audit_trail *trail);
