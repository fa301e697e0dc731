/* struct jail from the inside, for the files of this directory that make, watch and end jails. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "jail/base/err.h"
#include "jail/child.h"
#include "jail/spawn.h"

struct jail {
    enum jail_state state;
    enum jail_end end;
    struct err err; /* JAIL_END_SETUP: the sentence */
    pid_t pid;
    int pidfd, control, timer;
    bool control_closed;        /* end of file has been seen */
    struct jail_plan *plan;     /* kept for the names of steps, and the limits */
    struct jail_cgroup *cgroup; /* NULL: none */
    uint64_t cloned_ns, started_ns, ended_ns, deadline_ns;
    uint64_t watch_due_ns;     /* jail_watch() has nothing to see before */
    uint64_t seen_cpu_ns;      /* CPU time at the moment of the kill, where no cgroup counts it */
    struct child_message last; /* CHILD_ENDED, once it has come */
    bool has_ended_message;
    bool proc_absent;
    struct rusage rusage;
};
