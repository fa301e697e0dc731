/* Jobs, their results and what else is said of them, as tables. The front packs jobs and unpacks results, the
 * warden the reverse. Each takes the other for hostile: nothing that is not as it must be gets through here.
 * Framing, required fields and NUL in `string` fields have been seen to by wire.c. */
#include "config/message/message_job.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "config/format/wire.h"
#include "config/message/message.pb-c.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"

#define ROW(own, ...) BIND(struct job_limits, Immure__MsgLimits, own, own, __VA_ARGS__)
static const struct bind_row limits_rows[] = {
    ROW(memory_bytes),  ROW(pids),         ROW(cpu_percent), ROW(cpu_ms),
    ROW(scratch_bytes), ROW(output_bytes), ROW(timeout_ms),
};
#undef ROW
const struct bind_table limits_table = {
    .name = "limits", BIND_TABLE_OF(struct job_limits, immure__msg_limits__descriptor, limits_rows)};

/* ---- Jobs ---- */

static bool is_no_assignment(const char *name)
{
    return !strchr(name, '=');
}

static bool is_image_or_own(const char *name)
{
    return !*name || image_name_is_valid(name);
}

static int check_file(const void *object, struct err *reterr)
{
    const struct job_file *file = object;
    return file->offset > INT64_MAX || file->size > INT64_MAX - file->offset
               ? wire_refuse(reterr, "job.file.offset", "is past the largest file")
               : 0;
}

#define ROW(own, ...) BIND(struct job_file, Immure__MsgFile, own, own, __VA_ARGS__)
static const struct bind_row file_rows[] = {ROW(path, .least = 1), ROW(offset), ROW(size)};
#undef ROW
static const struct bind_table file_table = {
    .name = "job.file",
    BIND_TABLE_OF(struct job_file, immure__msg_file__descriptor, file_rows),
    .check = check_file,
};

#define ROW(own, ...) BIND(struct job_env, Immure__MsgEnv, own, own, __VA_ARGS__)
static const struct bind_row env_rows[] = {
    ROW(name, .least = 1, .valid = is_no_assignment, .why = "holds a '='"),
    ROW(value),
};
#undef ROW
static const struct bind_table env_table = {
    .name = "job.env", BIND_TABLE_OF(struct job_env, immure__msg_env__descriptor, env_rows)};

static int check_job(const void *object, struct err *reterr)
{
    const struct job *job = object;
    size_t levels = 0;
    for (size_t i = 0; i < job->n_files; i++) {
        if (job->files[i].offset < job->code_size) {
            return wire_refuse(reterr, "job.file.offset", "lies within the program's text");
        }
        for (const char *c = job->files[i].path; *c; c++) {
            levels += *c == '/';
        }
    }
    if (levels > JOB_FILE_LEVELS_MAX) {
        return wire_refuse(reterr, "job.file", "leads through too many directories");
    }
    return job->session_kept && !job->session_id ? wire_refuse(reterr, "job.session_kept", "is of no session")
                                                 : 0;
}

/* How many a job may have of each thing: the front has refused more of them to its caller. */
#define ROW(own, ...) BIND(struct job, Immure__MsgJob, own, own, __VA_ARGS__)
#define SOME(as, own, theirs, ...)                                                                           \
    BIND_SOME(as, struct job, Immure__MsgJob, own, n_##own, theirs, __VA_ARGS__)
static const struct bind_row job_rows[] = {
    ROW(id),
    ROW(runtime),
    ROW(policy),
    ROW(execution_id),
    ROW(key),
    ROW(code_size, .most = INT64_MAX),
    SOME(BIND_EACH, files, file, .table = &file_table, .most = JOB_FILES_MAX),
    SOME(BIND_TEXTS, args, arg, .most = JOB_ARGS_MAX),
    SOME(BIND_EACH, env, env, .table = &env_table, .most = JOB_ENV_MAX),
    SOME(BIND_TEXTS, outputs, output, .most = JOB_OUTPUTS_MAX),
    BIND_AS(BIND_ONE, struct job, Immure__MsgJob, limits, limits, .table = &limits_table),
    ROW(session_id, .valid = session_id_is_valid, .why = "is not a session's name"),
    ROW(announce),
    ROW(image, .valid = is_image_or_own, .why = "is not an image's name"),
    ROW(session_kept),
    ROW(results),
    ROW(kept_id, .valid = job_id_is_valid, .why = "is not the id of a job"),
    ROW(created_ms, BIND_WITH(struct job, kept_id)),
    ROW(early_ms),
};
#undef SOME
#undef ROW
const struct bind_table job_table = {
    .name = "job", BIND_TABLE_OF(struct job, immure__msg_job__descriptor, job_rows), .check = check_job};

void job_free(struct job *job)
{
    if (job) {
        job_clear_named(job);
        bind_clear(&job_table, job);
        free(job);
    }
}

static const struct bind_row outputs_rows[] = {
    BIND(struct msg_outputs, Immure__MsgOutputs, id, id),
    BIND_SOME(BIND_TEXTS, struct msg_outputs, Immure__MsgOutputs, paths, n_paths, path,
              .most = JOB_NAMED_MAX),
};
const struct bind_table outputs_table = {
    .name = "outputs", BIND_TABLE_OF(struct msg_outputs, immure__msg_outputs__descriptor, outputs_rows)};

void msg_outputs_clear(struct msg_outputs *outputs)
{
    bind_clear(&outputs_table, outputs);
}

/* ---- Results ---- */

#define ROW(own, ...) BIND(struct job_denied_call, Immure__MsgDeniedCall, own, own, __VA_ARGS__)
static const struct bind_row denied_call_rows[] = {ROW(call), ROW(count)};
#undef ROW
static const struct bind_table denied_call_table = {
    .name = "done.denied.call",
    BIND_TABLE_OF(struct job_denied_call, immure__msg_denied_call__descriptor, denied_call_rows)};

#define ROW(own, ...) BIND(struct job_denied, Immure__MsgDenied, own, own, __VA_ARGS__)
static const struct bind_row denied_rows[] = {
    ROW(name),
    ROW(count),
    BIND_SOME(BIND_EACH, struct job_denied, Immure__MsgDenied, calls, n_calls, call,
              .table = &denied_call_table),
};
#undef ROW
static const struct bind_table denied_table = {
    .name = "done.denied", BIND_TABLE_OF(struct job_denied, immure__msg_denied__descriptor, denied_rows)};

#define ROW(own, ...) BIND(struct job_output_file, Immure__MsgOutputFile, own, own, __VA_ARGS__)
static const struct bind_row output_file_rows[] = {
    ROW(path, .least = 1),
    ROW(size),
    BIND_AS(BIND_FD, struct job_output_file, Immure__MsgOutputFile, fd, attached),
    ROW(asked),
    ROW(written),
};
#undef ROW
static const struct bind_table output_file_table = {
    .name = "done.file",
    BIND_TABLE_OF(struct job_output_file, immure__msg_output_file__descriptor, output_file_rows)};

#define ROW(own, ...)      BIND(struct job_result, Immure__MsgDone, own, own, __VA_ARGS__)
#define FLAGGED(own, flag) ROW(own, BIND_FLAG(struct job_result, flag))
static const struct bind_row result_rows[] = {
    ROW(id),
    ROW(status, .most = JOB_STATUS_COUNT - 1),
    ROW(exit_code, .least = -1, .most = 255),
    ROW(signal, .most = NSIG - 1),
    ROW(killed),
    ROW(oom),
    ROW(setup_ns),
    ROW(duration_ns),
    FLAGGED(cpu_ns, has_cpu),
    FLAGGED(memory_peak_bytes, has_memory_peak),
    FLAGGED(pids_peak, has_pids_peak),
    BIND_SOME(BIND_EACH, struct job_result, Immure__MsgDone, denied, n_denied, denied,
              .table = &denied_table),
    BIND_SOME(BIND_EACH, struct job_result, Immure__MsgDone, files, n_files, file,
              .table = &output_file_table),
    ROW(files_truncated),
    BIND_AS(BIND_ONE, struct job_result, Immure__MsgDone, limits, limits, .table = &limits_table),
    ROW(enforced_by_cgroup),
    ROW(policy),
    ROW(policy_sha256),
    ROW(step),
    ROW(error_text),
    ROW(kernel, .most = JOB_KERNEL_COUNT - 1),
    ROW(image),
    ROW(session, .most = JOB_SESSION_COUNT - 1),
    ROW(hint),
};
#undef FLAGGED
#undef ROW
const struct bind_table job_result_table = {
    .name = "done", BIND_TABLE_OF(struct job_result, immure__msg_done__descriptor, result_rows)};

void job_result_clear(struct job_result *result)
{
    bind_clear(&job_result_table, result);
}

int job_result_attach(struct job_result *result, const int *fds, size_t n_fds, struct err *reterr)
{
    size_t n_attached = 0;
    for (size_t i = 0; i < result->n_files; i++) {
        n_attached += result->files[i].fd == BIND_FD_TO_COME;
    }
    if (n_attached != n_fds && n_fds != MSG_FDS_LOST) {
        return wire_refuse(reterr, "done.file.attached", "does not match the descriptors that came along");
    }
    for (size_t i = 0; i < result->n_files; i++) {
        if (result->files[i].fd == BIND_FD_TO_COME) {
            result->files[i].fd = n_fds == MSG_FDS_LOST ? -1 : *fds++;
        }
    }
    return 0;
}
