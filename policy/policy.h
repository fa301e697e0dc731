/* struct policy: a policy file compiled: checked, seccomp filter built, ready to make plans. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/message/job.h"
#include "config/policy/policy_file.h"
#include "jail/base/err.h"
#include "policy/filter/names.h"

struct buf;
struct jail_plan;
struct runtime_config;
struct policy;
struct policy_set;

/* Takes the spec over, also on failure. ERR_CONFIG names what is wrong and where ("mount /proc: ..."). */
int policy_compile(struct policy_spec *spec, struct policy **ret, struct err *reterr);
void policy_free(struct policy *policy);
const char *policy_name(const struct policy *policy);
const char *policy_sha256(const struct policy *policy);
const struct policy_spec *policy_spec(const struct policy *policy);
/* The interpreter that jails of this policy show beside that of their runtime: what it needs was found, and
 * it outlives the policy. For policies that show one. */
void policy_set_interpreter(struct policy *policy, const struct runtime_config *interpreter);
/* Where jails of this policy show the scratch's working directory; NULL: nowhere. */
const char *policy_workspace(const struct policy *policy);
/* Where the host has what jails of this policy show at `path`, into `ret` of PATH_MAX bytes; false where it
 * is nothing of the host's. Symbolic links are not followed. */
bool policy_find_on_host(const struct policy *policy, const char *path, char *ret);
/* True if programs under this policy may make that system call with these arguments, whatever those are whose
 * bit in `known` (bit 0: argument 0) is clear. */
bool policy_allows(const struct policy *policy, const char *syscall, unsigned known,
                   const uint64_t arguments[6]);
/* What the compiled filter says of the call with this number on the native architecture. */
struct policy_answer {
    enum seccomp_action_kind action;
    uint32_t error; /* of ACTION_ERRNO */
};
struct policy_answer policy_answer(const struct policy *policy, int nr, const uint64_t arguments[6]);
/* Appends "ERRNO ENOSYS". */
void policy_answer_print(struct policy_answer answer, struct buf *ret);
/* True if it lets them make it without a question: ACTION_ALLOW or ACTION_LOG. */
bool policy_allows_call(const struct policy *policy, const char *syscall, const uint64_t arguments[6]);

/* The shipped policies that are for servers plus those of `paths` (files, or directories whose *.textproto,
 * *.json and *.binpb are read); a later one of the same name hides an earlier one, twice the same name within
 * `paths` is refused. */
int policy_set_load(char *const *paths, size_t n_paths, struct policy_set **ret, struct err *reterr);
void policy_set_free(struct policy_set *set);
const struct policy *policy_set_find(const struct policy_set *set, const char *name);
/* All of them, those that are hidden too. */
size_t policy_set_count(const struct policy_set *set);
const struct policy *policy_set_at(const struct policy_set *set, size_t index);
/* The same, to be completed. */
struct policy *policy_set_edit(struct policy_set *set, size_t index);
/* A shipped policy by name, or a file: a path with a '/', or a file of the current directory with the
 * extension of a policy. For the command line. */
int policy_resolve(const char *name_or_path, struct policy **ret, struct err *reterr);

/* Appends the text of the same file, or part; `flat`: together with all that it uses. */
int policy_show(const char *name_or_path, bool flat, struct buf *ret, struct err *reterr);

/* What the server allows at most; 0: no ceiling. */
struct policy_ceilings {
    uint64_t default_timeout_ms, max_timeout_ms, max_output_bytes;
    struct job_limits key; /* of the key that calls; its timeout is part of the job's wish already */
    bool cgroup;           /* limits are enforced by a cgroup; else RLIMIT_AS stands in for memory.max */
    uint32_t landlock_abi; /* what the kernel offers (jail/resources/landlock.h); 0: nothing */
    uint64_t file_bytes;   /* most that one file may have (RLIMIT_FSIZE); 0: what the policy says */
};

/* The job's wishes held against policy and ceilings: what applies. A wish above the policy's limit is
 * ERR_INVALID naming the field (timeout is clamped instead); env against env_allow (ERR_INVALID, field
 * "env"). */
int policy_limits_for(const struct policy *policy, const struct policy_ceilings *ceilings,
                      const struct job *job, struct job_limits *ret, struct err *reterr);

/* The image whose files are the root of a job's jail. */
struct policy_image {
    const char *name, *digest; /* `digest` "": it has none */
    char *const *env;          /* NAME=VALUE: beneath the policy's own variables */
    size_t n_env;
    const char *interpreter; /* of the job's runtime, in the image; NULL: where the runtime says */
    const char *startup;     /* what that executes when it starts; NULL: as the runtime says */
};

/* Which image the job runs in; NULL: none. ERR_DENIED where the policy does not let it, ERR_INVALID where it
 * has to name one. */
int policy_image_for(const struct policy *policy, const struct job *job, const char **ret,
                     struct err *reterr);

/* A mount that the command line adds to the policy's own: what lies at `source` on the host, read-only or
 * not. */
struct policy_bind {
    char *source, *destination; /* absolute; the mount itself is the descriptor of the job's slot `slot` */
    bool writable;
    uint32_t slot; /* enum jail_fd */
};

/* The program of a job run through a runtime: interpreter, its arguments, the script's path, the job's args.
 * Or, with `runtime` NULL, the command in `argv` itself (`immure run`). */
struct policy_program {
    const struct runtime_config *runtime;
    char *const *argv;
    size_t n_argv;
    const struct policy_image *image; /* NULL: none */
    bool bridge;                      /* it has a way to its tools */
    bool proxy;   /* there is somebody to keep a proxy to the hosts of its policy: a server */
    bool standby; /* the plan is that of a standby jail: no script, and the runtime's own word in the place of
                     its path */
    bool kernel;  /* that of a kernel: the same with the runtime's launcher of kernels */
    const struct policy_bind *binds;
    size_t n_binds;
    const char *working_directory; /* NULL: the policy's */
    bool terminal;                 /* its standard input is to be its controlling terminal */
};

/* policy + ceilings + job -> plan. Pure: opens nothing, reads nothing. The plan passes jail_plan_check(). */
int policy_build_plan(const struct policy *policy, const struct policy_ceilings *ceilings,
                      const struct job *job, const struct policy_program *program, struct jail_plan **ret,
                      struct err *reterr);

/* The descriptors that a process of its jobs may have (RLIMIT_NOFILE): no more than its jails' maker may. */
uint64_t policy_open_files(const struct policy *policy);
/* What its jobs' own limit of a resource is (RLIMIT_*), before those that follow from `limits`; false: none.
 */
bool policy_rlimit(const struct policy *policy, uint32_t resource, uint64_t *ret_soft, uint64_t *ret_hard);

/* `immure policy explain`: limits, filter in words, the plan. */
int policy_explain(const struct policy *policy, struct buf *ret, struct err *reterr);
/* Appends a word to lines that begin with `indent` blanks. `column`: where the line ends; 0: there is none
 * yet. */
void policy_print_wrapped(const char *word, int indent, size_t *column, struct buf *ret);
/* The arguments that `where` knows by name, with the names of their values. */
void policy_print_names(struct buf *ret);
/* The shipped syscall sets with their reasons. */
void policy_print_sets(struct buf *ret);
