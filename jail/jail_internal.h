/* struct jail from the inside, for the files of this directory that make, watch and end jails. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "jail/base/err.h"
#include "jail/census.h"
#include "jail/child/message.h"
#include "jail/jail.h"

/* What follows the kernel's "No space left on device" where a namespace is made. */
#define JAIL_MORE_NAMESPACES "; it needs more namespaces of a kind (/proc/sys/user/max_*_namespaces)"

struct jail {
    enum jail_state state;
    enum jail_end end;
    struct err err; /* JAIL_END_SETUP: the sentence */
    pid_t pid;
    int pidfd, control, timer; /* control: -1 after end of file */
    int ready;        /* epoll set of these three: the one descriptor that callers watch; -1: the timer */
    bool ticks;       /* not all of them could be watched: the timer rings every few milliseconds */
    int egress;       /* CHILD_EGRESS: the listening socket; -1: none */
    int denied;       /* CHILD_DENIED: the table; -1: none */
    bool by_template; /* PID 1 is a template's child: not ours to wait for, only to watch */
    struct jail_plan *plan;     /* kept for the names of steps, and the limits */
    struct jail_cgroup *cgroup; /* NULL: none */
    uint64_t cloned_ns, started_ns, ended_ns, deadline_ns;
    uint64_t watch_due_ns;     /* jail_watch() has nothing to see before */
    uint64_t watch_room_ns;    /* how long after the last look no limit could be reached */
    struct census census;      /* what it saw */
    uint64_t used_cpu_ns;      /* CHILD_ENDED, is_alone */
    uint64_t seen_cpu_ns;      /* CPU time at the moment of the kill, where no cgroup counts it */
    struct child_message last; /* CHILD_ENDED, once it has come */
    bool parks, has_parked;    /* made in advance; and it stands ready, or has */
    bool kernel;               /* and does so again after each program */
    bool called;               /* the last program has ended, and nothing else has come since */
    bool interrupted;          /* the program that runs has been */
    bool killed;               /* nothing that it has said before makes it live on */
    uint64_t grace_ms;         /* from then on */
    bool stands_by;            /* and is watched until it has its program */
    uint64_t idle_cpu_ms;      /* until then, or between two programs; 0: any */
    uint64_t spared_cpu_ns;    /* CPU time from before its job: not the job's */
    bool has_ended_message;
    bool gone; /* PID 1 too */
    bool proc_absent;
    struct rusage rusage;
};

/* A jail without a process: sockets, timer, copy of the plan. Takes the cgroup over, also on failure.
 * `*ret_childs_end` is the other end of the control socket. */
int jail_new(const struct jail_plan *plan, struct jail_cgroup *cgroup, struct jail **ret, int *ret_childs_end,
             struct err *reterr);
/* Arms the deadline (absolute; 0: none). */
int jail_arm(struct jail *jail, uint64_t deadline_ns);
/* Tells PID 1 that a barrier is reached. 0 or -errno. */
int jail_tell(const struct jail *jail, enum jail_phase phase, int error);
/* Adds the pidfd to what the caller watches. */
int jail_watch_pidfd(struct jail *jail);
