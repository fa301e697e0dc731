/* struct job and struct job_result: one request and its verdict as plain data, whichever door it came
 * through. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

/* Room for the id under which a job is kept, or waits for approval: a UUID's text. */
#define KEPT_ID_BYTES 37

/* 36 of 0-9 a-f and '-': nothing that a path could misread. */
bool job_id_is_valid(const char *id);

/* Room for a session's name, which is the caller's own text. */
#define SESSION_ID_BYTES 513

#define SESSION_ID_RULE "must be 1 to 512 bytes of text without control characters"
bool session_id_is_valid(const char *session_id);

/* Room for an image's name. */
#define IMAGE_NAME_BYTES 65

#define IMAGE_NAME_RULE "must be 1 to 64 of a-z 0-9 . _ -, and begin with a letter or digit"
bool image_name_is_valid(const char *name);

/* Room for NAME@DIGEST. */
#define IMAGE_IDENTITY_BYTES (IMAGE_NAME_BYTES + 80)

/* Wishes and, in a result, what applied. 0: not given / no limit. */
struct job_limits {
    uint64_t memory_bytes, pids, cpu_percent, cpu_ms, scratch_bytes, output_bytes, timeout_ms;
};

/* An input file: `size` bytes at `offset` of the job's input descriptor. */
struct job_file {
    char *path;
    uint64_t offset, size;
};

struct job_env {
    char *name, *value;
};

/* How many of each a job may have. Callers choose them, and the front and the warden look at all of them. */
#define JOB_FILES_MAX   1024u
#define JOB_ARGS_MAX    1024u
#define JOB_ENV_MAX     256u
#define JOB_OUTPUTS_MAX 64u
#define JOB_NAMED_MAX   256u
/* Directories that the names of all its files lead through, each counted as often as it is named. */
#define JOB_FILE_LEVELS_MAX 2048u

/* Owned strings; freed by job_free(). The program's text is the first `code_size` bytes of the input
 * descriptor. */
struct job {
    uint64_t id; /* unique in this server's life */
    char *runtime;
    char *policy; /* NULL: the runtime's own */
    char *execution_id;
    char *key;           /* the calling key's name */
    char *session_id;    /* NULL: a workspace of its own */
    char *image;         /* the image that it is to run in; "": the policy's; NULL: as the policy says */
    bool session_kept;   /* no job of a session that is to be made */
    bool results;        /* what it shows is wanted, the value of its last expression among it */
    bool announce;       /* the warden says when the program has started */
    char *kept_id;       /* the id under which the warden keeps its result; NULL: nobody asks later */
    uint64_t created_ms; /* of one that is kept: when it was asked for, since the epoch */
    uint64_t early_ms;   /* that it ends before its timeout, at most a tenth of that */
    uint64_t code_size;
    struct job_file *files;
    size_t n_files;
    char **args;
    size_t n_args;
    struct job_env *env;
    size_t n_env;
    char **outputs; /* names or globs */
    size_t n_outputs;
    char **named; /* files that the program itself has named, relative to the workspace */
    size_t n_named;
    struct job_limits limits;
};
void job_free(struct job *job); /* takes NULL, frees the struct too */
void job_clear_named(struct job *job);

enum job_status {
    JOB_SUCCESS,
    JOB_EXECUTION_ERROR,
    JOB_TIMEOUT,
    JOB_OOM,
    JOB_CANCELLED,
    JOB_SETUP_ERROR,
    JOB_STATUS_COUNT,
};
const char *job_status_to_string(enum job_status status); /* "success", ... */

/* What became of the interpreter that a session keeps (server/run/kernels.h). */
enum job_kernel {
    JOB_KERNEL_NONE,  /* the job has none */
    JOB_KERNEL_NEW,   /* it was started for this call, and waits for the next one */
    JOB_KERNEL_KEPT,  /* it is that of the call before, and waits */
    JOB_KERNEL_ENDED, /* it has ended, and all that was in it */
    JOB_KERNEL_COUNT,
};
const char *job_kernel_to_string(enum job_kernel kernel); /* "new", ...; NULL for JOB_KERNEL_NONE */

/* Whether its session was there before it. */
enum job_session { JOB_SESSION_NONE, JOB_SESSION_NEW, JOB_SESSION_KEPT, JOB_SESSION_COUNT };
const char *job_session_to_string(enum job_session session); /* "new", ...; NULL for JOB_SESSION_NONE */

struct job_denied_call {
    char *call; /* with those arguments that tell what it wanted: "ioctl(FIONREAD)" */
    uint64_t count;
};

struct job_denied {
    char *name; /* the system call's, in the kernel's words; "?" for those past the table */
    uint64_t count;
    struct job_denied_call *calls; /* a few different ones of them, where it has such arguments */
    size_t n_calls;
};

struct job_output_file {
    char *path;
    uint64_t size;
    int fd;       /* its content, where asked for and within the size limit; else -1 */
    bool asked;   /* named by `outputs` */
    bool written; /* not an unchanged input */
};

/* Owned strings and descriptors; freed by job_result_clear(). */
struct job_result {
    uint64_t id;
    enum job_status status;
    int exit_code; /* the program's, 128+n, or -1 (contract: when the deadline ended it) */
    int signal;    /* 0: none */
    bool killed, oom;
    enum job_kernel kernel;
    enum job_session session;
    uint64_t setup_ns, duration_ns;
    bool has_cpu, has_memory_peak, has_pids_peak;
    uint64_t cpu_ns, memory_peak_bytes, pids_peak;
    struct job_denied *denied;
    size_t n_denied;
    struct job_output_file *files;
    size_t n_files;
    bool files_truncated;
    struct job_limits limits; /* what applied */
    bool enforced_by_cgroup;
    char *policy, *policy_sha256;
    char *image;      /* that it ran in, NAME@DIGEST, or NAME where it has none; NULL: in none */
    char *step;       /* of a setup error; else NULL */
    char *error_text; /* one sentence; else NULL */
    char *hint;       /* lines about the calls that were denied: rules that would allow them; else NULL */
};
void job_result_clear(struct job_result *result);
