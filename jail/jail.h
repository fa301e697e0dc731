/* struct jail: one running jail, seen from the parent: clone, barriers, deadline, exact verdict.
 *
 * The parent never blocks: it watches jail_fd() for input and calls jail_dispatch() when
 * it is ready. jail_wait() is the same for a caller that has nothing else to do. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>

#include "jail/child/denied.h"
#include "jail/plan/plan.h"

struct err;
struct jail;
struct jail_cgroup;

enum jail_state {
    JAIL_BUILDING, /* PID 1 applies the plan */
    JAIL_PARKED, /* built in advance, waits for jail_run() or jail_standby_run(); a kernel's: between calls */
    JAIL_RUNNING, /* the program has been exec'd */
    JAIL_ENDED,   /* the program and all that it left have ended, PID 1 is exiting at least: jail_collect() */
};
const char *jail_state_to_string(enum jail_state state);

/* Why a jail ended. The first reason wins. */
enum jail_end {
    JAIL_END_NONE,
    JAIL_END_PROGRAM,   /* the program ended by itself: wstatus says how */
    JAIL_END_SETUP,     /* the jail could not be built: err says where; no instruction of the program ran */
    JAIL_END_DEADLINE,  /* limits.timeout_ms passed */
    JAIL_END_CPU,       /* limits.cpu_ms was used up */
    JAIL_END_OOM,       /* limits.memory_bytes was passed */
    JAIL_END_CANCEL,    /* jail_kill() by the caller */
    JAIL_END_WORKSPACE, /* jail_kill() by the caller: the workspace that it shares is over its limits */
    JAIL_END_FLOOR,     /* jail_kill() by the caller: the host is short of memory */
    JAIL_END_LOST,      /* PID 1 was killed: from outside, or by the program's prlimit(2) */
};
const char *jail_end_to_string(enum jail_end end);

struct jail_result {
    enum jail_end end;
    int wstatus;                /* waitpid status of the program; valid for JAIL_END_PROGRAM */
    uint64_t setup_ns;          /* clone to exec */
    uint64_t duration_ns;       /* exec to the program's end (or the kill) */
    uint64_t cpu_ns;            /* user + system of the whole jail */
    uint64_t memory_peak_bytes; /* UINT64_MAX: the host cannot tell */
    uint64_t pids_peak;         /* without PID 1; UINT64_MAX: the host cannot tell */
    struct denied_table denied;
    bool proc_absent; /* an optional PROC step was refused by the kernel */
};

/* For setup_timeout_ms, of what is made ahead of any job: nobody waits, and a busy host may take its time. */
#define JAIL_UNHURRIED_SETUP_MS 30000u

struct jail_spawn_options {
    const struct jail_plan *plan;  /* copied into the child by clone; need not outlive the call */
    int fds[JAIL_FD_COUNT];        /* stay the caller's; -1 where not used */
    struct jail_cgroup *cgroup;    /* NULL: no cgroup; else given away to the jail, which removes it */
    uint32_t outer_uid, outer_gid; /* what plan->uid and plan->gid are outside */
    /* A template maps a whole range instead, of which plan->uid and plan->gid are part. 0: no range. */
    uint32_t range_inside, range_outside, range_count;
    bool template;                        /* the program makes jails: no process of theirs ever has its PID */
    bool standby;                         /* the program is a launcher that waits: jail/standby.h */
    const struct jail_plan *standby_plan; /* what its program's plan is held against; NULL: `plan` */
    uint64_t idle_cpu_ms;      /* of a launcher that nobody vouches for: until it has its program it is ended
                                  (JAIL_END_CPU) when it takes more CPU time; jail_watch() looks. 0: any */
    bool kernel;               /* and waits again after each program that it has run */
    uint64_t kernel_grace_ms;  /* what a program gets to heed an interrupt before the jail is killed */
    bool waits_for_all;        /* nobody gains by a verdict that comes before the jail is gone */
    bool drop_groups;          /* the parent may map gids without denying setgroups (root) */
    uint64_t setup_timeout_ms; /* 0: 10 s */
};

/* Clones a jail. The plan is checked first. On failure nothing is left behind and `options->cgroup` is freed.
 */
int jail_spawn(struct jail **ret, const struct jail_spawn_options *options, struct err *reterr);

/* Kills what still runs, waits for it, and frees everything. Takes NULL. */
void jail_free(struct jail *jail);

/* The descriptor to watch for EPOLLIN, as long as the jail is not gone. It stays the same all the while. */
int jail_fd(const struct jail *jail);
/* Handles whatever is ready, without blocking. Returns the state. */
enum jail_state jail_dispatch(struct jail *jail);
enum jail_state jail_state(const struct jail *jail);
/* Beyond JAIL_ENDED: PID 1 is gone too. Until then the outer uid is taken, and jail_free() would wait. */
bool jail_is_gone(const struct jail *jail);

/* Ends the jail for `end` (DEADLINE, CPU, OOM or CANCEL). jail_dispatch() reports JAIL_ENDED later. */
void jail_kill(struct jail *jail, enum jail_end end);

/* The same for a kernel's jail that runs a program: that is interrupted (SIGINT) first, and the jail is
 * killed if it does not wait for another within the grace. */
void jail_interrupt(struct jail *jail, enum jail_end end);
/* Hands a signal on to the process group that a running program began in. -ESRCH where none runs, or where
 * the jail is a template's, which hears of none. */
int jail_signal(const struct jail *jail, int signal);
/* True once a kernel's program has ended and the kernel waits for another: jail_collect() has the verdict. */
bool jail_has_called(const struct jail *jail);
/* With that collected, or before the first: what it does from here on is nobody's call, and ends it
 * (JAIL_END_CPU) when that takes more CPU time than this (0: any). jail_watch() looks. */
void jail_idle(struct jail *jail, uint64_t cpu_ms);

/* The outer PID of the jail's PID 1. Only for looking (the memory watch); never for signals. */
int jail_pid(const struct jail *jail);
/* The listening socket of its EGRESS step, which stays its own; -1: none (yet). */
int jail_egress_fd(const struct jail *jail);
uint64_t jail_deadline_ns(const struct jail *jail);
const struct jail_limits *jail_limits(const struct jail *jail);

/* Once JAIL_ENDED, or jail_has_called(): the verdict. For JAIL_END_SETUP `reterr` gets the sentence
 * (ERR_SETUP, step, errno) and the return value is still 0. */
int jail_collect(struct jail *jail, struct jail_result *ret, struct err *reterr);

/* Blocks until JAIL_ENDED. `interrupt_fd` (-1: none): when it becomes readable the jail is cancelled. */
void jail_wait(struct jail *jail, int interrupt_fd);
