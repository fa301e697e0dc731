/* struct execution, for the files that are its life: execution.c from request to end, execution_finish.c the
 * rest. */
#pragma once

#include "config/message/job.h"
#include "jail/base/err.h"
#include "jail/template.h"
#include "server/host/floor.h"
#include "server/run/execution.h"
#include "server/run/filler.h"
#include "server/run/outputs.h"

struct collector;
struct kernel;
struct warm_jail;

struct execution {
    enum execution_state state;
    struct host *host;
    struct job *job;
    struct jail_plan *plan;
    struct job_limits limits; /* what applies */
    struct output_limits output_limits;
    char *policy, policy_sha256[65];
    char image[IMAGE_IDENTITY_BYTES]; /* "": none */
    char *workspace;                  /* where the jail shows it; NULL: nowhere */
    bool has_outer_id;
    uint32_t outer_uid, outer_gid;
    uint32_t file_uid, file_gid; /* of its files in the working directory, as seen through work_fd */
    int scratch_fd;
    int work_fd; /* where the working directory is: the scratch's descriptor, or the session's */
    struct filled
        filled; /* what has come of its input; `program_fd` is what a standby jail's launcher reads */
    struct filler *filler;        /* writes the input; NULL: nothing does */
    int spawn_fds[JAIL_FD_COUNT]; /* what its jail is made with, the caller's until a filler is started */
    bool owns_spawn_fds, waits_for_all;
    uint64_t session_entries; /* files and directories in the session's workspace, as far as is known */
    enum jail_end early_end;  /* while its input is written: how it is to end */
    struct jail *jail;
    struct warm_jail *warm;    /* NULL, or who owns jail, scratch and outer id */
    struct kernel *kernel;     /* the same, where the job is one of a kernel's calls */
    struct err run_err;        /* warm: why the program could not be handed over */
    struct err workspace_err;  /* what is wrong with its session's workspace */
    int fds[JAIL_PROGRAM_FDS]; /* warm: the program's, kept until the jail is parked; -1 otherwise */
    size_t n_fds;
    bool enforced_by_cgroup, list_outputs;
    struct floor_account account; /* of a job that is no kernel's */
    struct collector *collector;  /* lists the output files; NULL: nothing does */
    struct job_result result;     /* all but the files, meanwhile */
    uint64_t started_ns;
};

/* It only ever moves forward. */
void execution_advance(struct execution *execution, enum execution_state state);
