/* The words that PID 1 of a jail exchanges with its parent, a datagram each. Both are of one build. What
 * comes from PID 1 the parent holds to what is due (jail.c). */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Barriers: what the parent tells the child, in this order. */
enum jail_phase {
    PHASE_IDMAP,     /* uid_map and gid_map are written: build */
    PHASE_NETWORK,   /* the network namespace to enter comes along; if not, make one */
    PHASE_LOOPBACK,  /* lo is up (`error` 0) or is not */
    PHASE_RUN,       /* a standby jail's program comes along, with its pipes */
    PHASE_INTERRUPT, /* a kernel's program is to be interrupted, if it still runs */
    PHASE_SIGNAL,    /* the signal `error` is for the program's process group */
};

struct parent_message {
    enum jail_phase phase;
    int32_t error; /* positive errno, 0: done; of PHASE_SIGNAL: the signal's number */
};

enum child_message_kind {
    CHILD_CLONED,   /* a template has made PID 1 of this jail: its pidfd comes with this message */
    CHILD_PARKED,   /* the jail is built, its program's process waits for a program; a kernel's, for another:
                       time_ns, wstatus */
    CHILD_LOOPBACK, /* bring lo up through the netlink socket that comes with this message */
    CHILD_EGRESS,   /* the program's way out: its listening socket comes with this message */
    CHILD_FAILED,   /* a step failed: step, call, error */
    CHILD_STARTED,  /* the program has been exec'd: time_ns */
    CHILD_DENIED,   /* a system call was denied, the first: the table comes with this message (denied.h) */
    CHILD_ENDED,    /* the program has ended: time_ns, wstatus; comes again once is_alone */
};

#define CHILD_CALL_MAX 24
#define CHILD_PATH_MAX 192

/* What the program's exec did not find, where it said that there is no such file (missing.h). */
enum child_missing {
    MISSING_NOTHING,
    MISSING_UNKNOWN,     /* it could not be found out */
    MISSING_ABSENT,      /* the file: nothing is at `path`, which may be a directory above it */
    MISSING_ON_PATH,     /* a bare name: no directory of the PATH has it */
    MISSING_LINK,        /* a link, there or on the way, leads to `path`, where nothing is */
    MISSING_LOADER,      /* the loader that the program names: `path` */
    MISSING_INTERPRETER, /* the interpreter that the script names: `path` */
    MISSING_COUNT,
};

struct child_message {
    enum child_message_kind kind;
    uint32_t step;
    int32_t error; /* positive errno */
    char call[CHILD_CALL_MAX];
    enum child_missing missing; /* FAILED, with the path */
    char path[CHILD_PATH_MAX];
    uint64_t time_ns;
    int32_t wstatus;
    bool is_alone;   /* ENDED: and so have all others; nothing is left but PID 1, which exits */
    uint64_t cpu_ns; /* ENDED, is_alone: of the whole jail */
    bool proc_absent;
};
