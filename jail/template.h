/* Templates: a warm interpreter in a jail of its own, from which jobs are forked; and parked jails, each used
 * once.
 *
 * The parent's side. What happens inside is jail/zygote.h. A job on this path gets the same plan as on the
 * exec path, turned by jail/plan/template_plan.h into the part that the template does once and the part that
 * is every job's own. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "jail/plan/plan.h"

struct err;
struct jail;
struct jail_cgroup;
struct jail_result;
struct jail_template;

/* Inside a privileged template's user namespace the pool of outer ids starts here. */
#define TEMPLATE_INNER_BASE 65536u

struct jail_template_options {
    const struct jail_plan *plan; /* from jail_plan_for_template() */
    int program_fd;               /* what the template executes; readable and seekable */
    int log_fd;                   /* stdout and stderr of the template */
    struct jail_cgroup *cgroup;   /* NULL: none; else given away */
    uint32_t outer_uid, outer_gid;
    uint32_t range_base, range_count; /* the pool of outer ids; count 0: an unprivileged parent */
};

/* Starts one. It is ready when the first jail_park() succeeds; requests wait in its socket until then. */
int jail_template_new(const struct jail_template_options *options, struct jail_template **ret,
                      struct err *reterr);
/* Kills it, and with it every jail that it has made. Takes NULL. */
void jail_template_free(struct jail_template *template);
/* The template's own jail, to be watched and dispatched like any other: JAIL_ENDED means that all its jails
 * are gone. */
struct jail *jail_template_jail(struct jail_template *template);

struct jail_park_options {
    const struct jail_plan *plan; /* from jail_plan_for_run(); its EXEC part is only a placeholder */
    int scratch_fd;
    int workspace_fd;           /* where the plan attaches one */
    struct jail_cgroup *cgroup; /* NULL: none; else given away, also on failure */
    uint32_t outer_uid;         /* from the pool */
    /* Put the filter in place before parking rather than when the program comes: it takes a quarter of what
     * the shortest program takes. For filters under which a parked process can still do what it has to:
     * recvmsg, dup3, sendmsg, close_range, and setting what jail_step_is_wish() names. */
    bool filter_early;
    /* RLIMIT_NOFILE is set behind the filter, which lets it: until PID 1 has the listener, what other jails
     * of our uid have sent and nobody has received is held against it. */
    bool files_late;
    /* A job waits for it, or soon will: nothing is done beforehand that the job might not need. */
    bool is_awaited;
};

/* Asks for a jail. It is JAIL_BUILDING, then JAIL_PARKED. */
int jail_park(struct jail_template *template, const struct jail_park_options *options, struct jail **ret,
              struct err *reterr);

/* Hands a program to a parked jail, with its stdin, stdout, stderr and, if it has one, its two ends of the
 * bridge (`n_fds` 5, else 3): `plan` from jail_plan_for_run() with this job's limits, arguments and
 * environment; but for these its steps must be those it was parked with. The jail is JAIL_BUILDING again
 * until its program runs. -E2BIG where the plan does not fit a message: the jail is still parked then. */
int jail_run(struct jail *jail, const struct jail_plan *plan, const int *fds, size_t n_fds,
             struct err *reterr);
