/* struct execution: one job on its way from request to verdict: plan, scratch, cgroup, jail, result. The
 * warden's jobs, the self-test and `immure run` all go this way. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "config/message/job.h"
#include "jail/jail.h"
#include "jail/plan/plan.h"
#include "server/sessions/sessions.h"

struct err;
struct floor_account;
struct host;
struct kernel;
struct policy;
struct policy_ceilings;
struct policy_program;
struct warm;
struct warm_image;
struct execution;

enum execution_state {
    EXECUTION_PREPARING, /* its resources are being made */
    EXECUTION_BUILDING,  /* PID 1 of the jail applies the plan */
    EXECUTION_RUNNING,   /* the program runs */
    EXECUTION_ENDED,     /* the program and all that it left have ended: execution_finish() */
    EXECUTION_FINISHED,  /* the verdict has been handed out */
};

struct execution_request {
    struct host *host;
    const struct policy *policy;
    const struct policy_ceilings *ceilings;
    const struct policy_program *program;
    struct job *job;                         /* taken over, also on failure */
    const struct warm_image *image;          /* that of `program`; NULL: none */
    struct warm *warm;                       /* NULL: the program starts its own interpreter */
    const char *template_owner;              /* see warm_take(); NULL where `warm` is */
    const struct session_workspace *session; /* NULL: the job has a workspace of its own */
    struct kernel *kernel;  /* NULL, or that of its session: entered by the caller, left with the execution,
                               also on failure */
    int fds[JAIL_FD_COUNT]; /* the scratch's is made here; the others stay the caller's and may be closed
                               afterwards */
    bool list_outputs;      /* the result names the files that the program wrote */
    bool waits_for_all;     /* the caller frees it before it tells the verdict */
};

/* Builds the plan and starts the jail; returns while it is being built. 1: its input is being written first;
 * call execution_go_on() when execution_filler_fd() is readable. (Without `list_outputs` never.) Where the
 * jail cannot be started at all, `reterr` says why: ERR_SETUP or ERR_INTERNAL are ours, ERR_BUSY means that
 * every outer id is taken, all else is the caller's to mend. */
int execution_start(const struct execution_request *request, struct execution **ret, struct err *reterr);
int execution_filler_fd(const struct execution *execution);
/* Fails as execution_start() does. */
int execution_go_on(struct execution *execution, struct err *reterr);

/* What can be told of a job without beginning it: whether execution_start() would refuse it as the caller's
 * fault. `program` NULL: its plan is not known yet. */
int execution_check(const struct policy *policy, const struct policy_ceilings *ceilings,
                    const struct policy_program *program, const struct job *job, struct err *reterr);

/* Kills what still runs and frees everything. Takes NULL. */
void execution_free(struct execution *execution);
static inline void execution_freep(struct execution **execution)
{
    execution_free(*execution);
}

enum execution_state execution_state(const struct execution *execution);
const char *execution_policy(const struct execution *execution); /* its name */
const struct job *execution_job(const struct execution *execution);

/* The socket on which its program finds the proxy, as jail_egress_fd(). */
int execution_egress_fd(const struct execution *execution);

/* The descriptor to watch for input until execution_is_gone(), and what to call when it is ready. */
int execution_fd(const struct execution *execution);
enum execution_state execution_dispatch(struct execution *execution);
/* True once PID 1 of the jail, too, has ended, or nothing but that is left to wait for: execution_free() does
 * not block then. */
bool execution_is_gone(const struct execution *execution);

/* True if execution_watch() must be called again and again: no cgroup, or a limit that no cgroup enforces. */
bool execution_needs_watch(const struct execution *execution);
/* Returns at once where there is nothing to see yet. When there is something to see next at the earliest, on
 * the clock of clock_now_ns(); in the past: after JAIL_WATCH_INTERVAL_MS. */
uint64_t execution_watch(struct execution *execution);

/* A kernel's call is interrupted first, and killed if it does not end. */
void execution_cancel(struct execution *execution);
/* Hands a signal on to its program; -ESRCH where that does not run. */
int execution_signal(const struct execution *execution, int signal);
/* Along with its kernel, if it has one. */
void execution_kill(struct execution *execution);
/* Ends it because the host is short of memory. */
void execution_end_for_memory(struct execution *execution);
/* What it holds in memory now, and the CPU time that it has used: where no cgroup counts, as of the last
 * watch. */
void execution_usage(const struct execution *execution, uint64_t *ret_memory_bytes, uint64_t *ret_cpu_ns);
/* Its kernel's, where it has one. */
struct floor_account *execution_account(struct execution *execution);
/* Ends it because of its session's workspace: `why` is the rest of a sentence about that. */
void execution_end_over_workspace(struct execution *execution, const char *why);

/* Files to be returned with the result, by their paths in the jail, instead of those that were named before.
 * What lies outside of the workspace names nothing. Takes the list and leaves an empty one. */
void execution_name_outputs(struct execution *execution, char ***paths, size_t *n);

/* Milliseconds until its deadline ends it at the latest; UINT64_MAX: it has none. */
uint64_t execution_remaining_ms(const struct execution *execution, uint64_t now_ns);

/* Once EXECUTION_ENDED: the verdict, with the output files open. job_result_clear() it. 1: they are being
 * listed; call again when execution_files_fd() is readable. (Without `list_outputs` never.) */
int execution_files_fd(const struct execution *execution);
int execution_finish(struct execution *execution, struct job_result *ret, struct err *reterr);
