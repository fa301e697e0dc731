/* struct job and struct job_result to and from their messages. The front packs jobs and unpacks results, the
 * warden the reverse. Each takes the other for hostile: nothing is copied before it is checked. Framing,
 * required fields and NUL in `string` fields have been seen to by wire.c; `bytes` fields (names that need not
 * be UTF-8) are checked here. */
#include "config/message/message_job.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "config/format/pool.h"
#include "config/format/wire.h"
#include "config/message/message.pb-c.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"

#define JOB_LIMITS(X)                                                                                        \
    X(memory_bytes) X(pids) X(cpu_percent) X(cpu_ms) X(scratch_bytes) X(output_bytes) X(timeout_ms)

/* protobuf-c's structs are not const, but packing only reads. */
static char *text_or_empty(char *text)
{
    return text ? text : (char *)(uintptr_t)protobuf_c_empty_string;
}

static ProtobufCBinaryData bytes_of(char *text)
{
    text = text_or_empty(text);
    return (ProtobufCBinaryData){.len = strlen(text), .data = (uint8_t *)text};
}

static ProtobufCBinaryData *bytes_of_each(char *const *texts, size_t n, struct pool *pool)
{
    ProtobufCBinaryData *all = pool_alloc(pool, n, sizeof *all);
    for (size_t i = 0; all && i < n; i++) {
        all[i] = bytes_of(texts[i]);
    }
    return all;
}

Immure__MsgLimits *limits_to_message(const struct job_limits *limits, struct pool *pool)
{
    Immure__MsgLimits *message = pool_alloc(pool, 1, sizeof *message);
    if (!message) {
        return NULL;
    }
    immure__msg_limits__init(message);
#define X(name)                                                                                              \
    message->has_##name = limits->name != 0;                                                                 \
    message->name = limits->name;
    JOB_LIMITS(X)
#undef X
    return message;
}

static Immure__MsgFile **files_to_messages(const struct job *job, struct pool *pool)
{
    Immure__MsgFile **pointers = pool_alloc(pool, job->n_files, sizeof *pointers);
    Immure__MsgFile *messages = pool_alloc(pool, job->n_files, sizeof *messages);
    for (size_t i = 0; pointers && messages && i < job->n_files; i++) {
        immure__msg_file__init(&messages[i]);
        messages[i].path = bytes_of(job->files[i].path);
        messages[i].offset = job->files[i].offset;
        messages[i].size = job->files[i].size;
        pointers[i] = &messages[i];
    }
    return pointers;
}

static Immure__MsgEnv **env_to_messages(const struct job *job, struct pool *pool)
{
    Immure__MsgEnv **pointers = pool_alloc(pool, job->n_env, sizeof *pointers);
    Immure__MsgEnv *messages = pool_alloc(pool, job->n_env, sizeof *messages);
    for (size_t i = 0; pointers && messages && i < job->n_env; i++) {
        immure__msg_env__init(&messages[i]);
        messages[i].name = bytes_of(job->env[i].name);
        messages[i].value = bytes_of(job->env[i].value);
        pointers[i] = &messages[i];
    }
    return pointers;
}

void job_to_message(const struct job *job, struct pool *pool, Immure__MsgJob *ret)
{
    ret->id = job->id;
    ret->runtime = text_or_empty(job->runtime);
    ret->policy = job->policy;
    ret->execution_id = text_or_empty(job->execution_id);
    ret->key = text_or_empty(job->key);
    ret->code_size = job->code_size;
    ret->n_file = job->n_files;
    ret->file = files_to_messages(job, pool);
    ret->n_arg = job->n_args;
    ret->arg = bytes_of_each(job->args, job->n_args, pool);
    ret->n_env = job->n_env;
    ret->env = env_to_messages(job, pool);
    ret->n_output = job->n_outputs;
    ret->output = bytes_of_each(job->outputs, job->n_outputs, pool);
    ret->limits = limits_to_message(&job->limits, pool);
    ret->session_id = job->session_id;
    ret->image = job->image;
    ret->has_announce = ret->announce = job->announce;
    ret->has_early_ms = job->early_ms > 0;
    ret->early_ms = job->early_ms;
    ret->kept_id = job->kept_id;
    ret->has_created_ms = job->kept_id != NULL;
    ret->created_ms = job->created_ms;
    ret->has_session_kept = ret->session_kept = job->session_kept;
}

static Immure__MsgDenied **denied_to_messages(const struct job_result *result, struct pool *pool)
{
    Immure__MsgDenied **pointers = pool_alloc(pool, result->n_denied, sizeof *pointers);
    Immure__MsgDenied *messages = pool_alloc(pool, result->n_denied, sizeof *messages);
    for (size_t i = 0; pointers && messages && i < result->n_denied; i++) {
        immure__msg_denied__init(&messages[i]);
        messages[i].name = text_or_empty(result->denied[i].name);
        messages[i].count = result->denied[i].count;
        pointers[i] = &messages[i];
    }
    return pointers;
}

static Immure__MsgOutputFile **outputs_to_messages(const struct job_result *result, struct pool *pool)
{
    Immure__MsgOutputFile **pointers = pool_alloc(pool, result->n_files, sizeof *pointers);
    Immure__MsgOutputFile *messages = pool_alloc(pool, result->n_files, sizeof *messages);
    for (size_t i = 0; pointers && messages && i < result->n_files; i++) {
        const struct job_output_file *file = &result->files[i];
        immure__msg_output_file__init(&messages[i]);
        messages[i].path = bytes_of(file->path);
        messages[i].size = file->size;
        messages[i].attached = file->fd >= 0;
        messages[i].asked = file->asked;
        messages[i].written = file->written;
        pointers[i] = &messages[i];
    }
    return pointers;
}

void job_result_to_message(const struct job_result *result, struct pool *pool, Immure__MsgDone *ret)
{
    ret->id = result->id;
    ret->status = result->status;
    ret->exit_code = result->exit_code;
    ret->signal = (uint32_t)result->signal;
    ret->killed = result->killed;
    ret->oom = result->oom;
    ret->setup_ns = result->setup_ns;
    ret->duration_ns = result->duration_ns;
    ret->has_cpu_ns = result->has_cpu;
    ret->cpu_ns = result->cpu_ns;
    ret->has_memory_peak_bytes = result->has_memory_peak;
    ret->memory_peak_bytes = result->memory_peak_bytes;
    ret->has_pids_peak = result->has_pids_peak;
    ret->pids_peak = result->pids_peak;
    ret->n_denied = result->n_denied;
    ret->denied = denied_to_messages(result, pool);
    ret->n_file = result->n_files;
    ret->file = outputs_to_messages(result, pool);
    ret->files_truncated = result->files_truncated;
    ret->limits = limits_to_message(&result->limits, pool);
    ret->enforced_by_cgroup = result->enforced_by_cgroup;
    ret->policy = text_or_empty(result->policy);
    ret->policy_sha256 = text_or_empty(result->policy_sha256);
    ret->image = result->image;
    ret->step = result->step;
    ret->error_text = result->error_text;
    ret->has_kernel = result->kernel != JOB_KERNEL_NONE;
    ret->kernel = result->kernel;
    ret->has_session = result->session != JOB_SESSION_NONE;
    ret->session = result->session;
}

void outputs_to_message(const struct msg_outputs *outputs, struct pool *pool, Immure__MsgOutputs *ret)
{
    ret->id = outputs->id;
    ret->n_path = outputs->n_paths;
    ret->path = bytes_of_each(outputs->paths, outputs->n_paths, pool);
}

/* NULL stays NULL. */
static int copy_text(const char *text, char **ret, struct err *reterr)
{
    if (text && !(*ret = strdup(text))) {
        return err_errno(reterr, ENOMEM, "while reading a message");
    }
    return 0;
}

static int copy_bytes(ProtobufCBinaryData bytes, const char *field, char **ret, struct err *reterr)
{
    if (bytes.len > 0 && memchr(bytes.data, '\0', bytes.len)) {
        return wire_refuse(reterr, field, "holds a NUL");
    }
    char *text = malloc(bytes.len + 1);
    if (!text) {
        return err_errno(reterr, ENOMEM, "while reading a message");
    }
    if (bytes.len > 0) {
        memcpy(text, bytes.data, bytes.len);
    }
    text[bytes.len] = '\0';
    *ret = text;
    return 0;
}

static int copy_name(ProtobufCBinaryData bytes, const char *field, char **ret, struct err *reterr)
{
    return bytes.len == 0 ? wire_refuse(reterr, field, "is empty") : copy_bytes(bytes, field, ret, reterr);
}

/* What a job may have of each thing; the front has refused more of them to its caller. */
static int check_counts(const Immure__MsgJob *message, struct err *reterr)
{
    const struct {
        const char *field;
        size_t n, most;
    } rows[] = {
        {"job.file", message->n_file, JOB_FILES_MAX},
        {"job.arg", message->n_arg, JOB_ARGS_MAX},
        {"job.env", message->n_env, JOB_ENV_MAX},
        {"job.output", message->n_output, JOB_OUTPUTS_MAX},
    };
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        if (rows[i].n > rows[i].most) {
            return wire_refuse(reterr, rows[i].field, "has too many items");
        }
    }
    size_t levels = 0;
    for (size_t i = 0; i < message->n_file; i++) {
        for (size_t at = 0; at < message->file[i]->path.len; at++) {
            levels += message->file[i]->path.data[at] == '/';
        }
    }
    return levels > JOB_FILE_LEVELS_MAX
               ? wire_refuse(reterr, "job.file", "leads through too many directories")
               : 0;
}

/* `n` zeroed items; the count is then kept beside them by the caller, one by one or at once. */
static int new_array(size_t n, size_t size, void *ret, struct err *reterr)
{
    void *items = n > 0 ? calloc(n, size) : NULL;
    if (n > 0 && !items) {
        return err_errno(reterr, ENOMEM, "while reading a message");
    }
    *(void **)ret = items;
    return 0;
}

static int copy_each(const ProtobufCBinaryData *all, size_t n, const char *field, char ***ret, size_t *ret_n,
                     struct err *reterr)
{
    int r = new_array(n, sizeof **ret, ret, reterr);
    for (; r == 0 && *ret_n < n; ++*ret_n) {
        r = copy_bytes(all[*ret_n], field, &(*ret)[*ret_n], reterr);
        if (r < 0) {
            return r;
        }
    }
    return r;
}

/* "No limit" is written by leaving the field out, and in no other way. */
int limits_from_message(const Immure__MsgLimits *message, struct job_limits *ret, struct err *reterr)
{
#define X(name)                                                                                              \
    if (message->has_##name && message->name == 0) {                                                         \
        return wire_refuse(reterr, "limits." #name, "is 0");                                                 \
    }                                                                                                        \
    ret->name = message->name;
    JOB_LIMITS(X)
#undef X
    return 0;
}

static int files_from_messages(const Immure__MsgJob *message, struct job *job, struct err *reterr)
{
    int r = new_array(message->n_file, sizeof *job->files, &job->files, reterr);
    for (size_t i = 0; r == 0 && i < message->n_file; i++) {
        const Immure__MsgFile *file = message->file[i];
        if (file->offset > INT64_MAX || file->size > INT64_MAX - file->offset) {
            return wire_refuse(reterr, "job.file.offset", "is past the largest file");
        }
        if (file->offset < job->code_size) {
            return wire_refuse(reterr, "job.file.offset", "lies within the program's text");
        }
        job->files[i].offset = file->offset;
        job->files[i].size = file->size;
        job->n_files = i + 1;
        r = copy_name(file->path, "job.file.path", &job->files[i].path, reterr);
    }
    return r;
}

static int env_from_messages(const Immure__MsgJob *message, struct job *job, struct err *reterr)
{
    int r = new_array(message->n_env, sizeof *job->env, &job->env, reterr);
    for (size_t i = 0; r == 0 && i < message->n_env; i++) {
        const Immure__MsgEnv *env = message->env[i];
        job->n_env = i + 1;
        if (env->name.len > 0 && memchr(env->name.data, '=', env->name.len)) {
            return wire_refuse(reterr, "job.env.name", "holds a '='");
        }
        r = copy_name(env->name, "job.env.name", &job->env[i].name, reterr);
        if (r == 0) {
            r = copy_bytes(env->value, "job.env.value", &job->env[i].value, reterr);
        }
    }
    return r;
}

static int job_texts_from_message(const Immure__MsgJob *message, struct job *job, struct err *reterr)
{
    int r = copy_text(message->runtime, &job->runtime, reterr);
    r = r < 0 ? r : copy_text(message->policy, &job->policy, reterr);
    r = r < 0 ? r : copy_text(message->execution_id, &job->execution_id, reterr);
    if (r == 0 && message->session_id && !session_id_is_valid(message->session_id)) {
        return wire_refuse(reterr, "job.session_id", "is not a session's name");
    }
    r = r < 0 ? r : copy_text(message->session_id, &job->session_id, reterr);
    if (r == 0 && message->image && message->image[0] && !image_name_is_valid(message->image)) {
        return wire_refuse(reterr, "job.image", "is not an image's name");
    }
    r = r < 0 ? r : copy_text(message->image, &job->image, reterr);
    if (r == 0 && message->kept_id && !job_id_is_valid(message->kept_id)) {
        return wire_refuse(reterr, "job.kept_id", "is not the id of a job");
    }
    r = r < 0 ? r : copy_text(message->kept_id, &job->kept_id, reterr);
    return r < 0 ? r : copy_text(message->key, &job->key, reterr);
}

static void job_freep(struct job **job)
{
    job_free(*job);
}

int job_from_message(const Immure__MsgJob *message, struct job **ret, struct err *reterr)
{
    CLEANUP(job_freep) struct job *job = calloc(1, sizeof *job);
    if (!job) {
        return err_errno(reterr, ENOMEM, "while reading a message");
    }
    if (message->code_size > INT64_MAX) {
        return wire_refuse(reterr, "job.code_size", "is past the largest file");
    }
    if (message->has_announce && !message->announce) {
        return wire_refuse(reterr, "job.announce", "is false");
    }
    if (message->has_early_ms && message->early_ms == 0) {
        return wire_refuse(reterr, "job.early_ms", "is 0");
    }
    if ((message->kept_id != NULL) != message->has_created_ms) {
        return wire_refuse(reterr, "job.created_ms", "does not go with the rest");
    }
    if (message->has_session_kept && (!message->session_kept || !message->session_id)) {
        return wire_refuse(reterr, "job.session_kept", "is false, or of no session");
    }
    job->id = message->id;
    job->code_size = message->code_size;
    job->announce = message->announce;
    job->early_ms = message->early_ms;
    job->created_ms = message->created_ms;
    job->session_kept = message->session_kept;
    int r = check_counts(message, reterr);
    r = r < 0 ? r : limits_from_message(message->limits, &job->limits, reterr);
    r = r < 0 ? r : job_texts_from_message(message, job, reterr);
    r = r < 0 ? r : files_from_messages(message, job, reterr);
    r = r < 0 ? r : env_from_messages(message, job, reterr);
    r = r < 0 ? r : copy_each(message->arg, message->n_arg, "job.arg", &job->args, &job->n_args, reterr);
    r = r < 0 ? r
              : copy_each(message->output, message->n_output, "job.output", &job->outputs, &job->n_outputs,
                          reterr);
    if (r < 0) {
        return r;
    }
    *ret = TAKE_PTR(job);
    return 0;
}

int outputs_from_message(const Immure__MsgOutputs *message, struct msg_outputs *ret, struct err *reterr)
{
    struct msg_outputs outputs = {.id = message->id};
    if (message->n_path > JOB_NAMED_MAX) {
        return wire_refuse(reterr, "outputs.path", "has too many items");
    }
    int r =
        copy_each(message->path, message->n_path, "outputs.path", &outputs.paths, &outputs.n_paths, reterr);
    if (r < 0) {
        msg_outputs_clear(&outputs);
        return r;
    }
    *ret = outputs;
    return 0;
}

void msg_outputs_clear(struct msg_outputs *outputs)
{
    for (size_t i = 0; i < outputs->n_paths; i++) {
        free(outputs->paths[i]);
    }
    free(outputs->paths);
    *outputs = (struct msg_outputs){0};
}

static int denied_from_messages(const Immure__MsgDone *message, struct job_result *result, struct err *reterr)
{
    int r = new_array(message->n_denied, sizeof *result->denied, &result->denied, reterr);
    for (size_t i = 0; r == 0 && i < message->n_denied; i++) {
        result->n_denied = i + 1;
        result->denied[i].count = message->denied[i]->count;
        r = copy_text(message->denied[i]->name, &result->denied[i].name, reterr);
    }
    return r;
}

/* Descriptors are put in only once everything else has been accepted, so that a failure leaves them to the
 * caller. */
static int outputs_from_messages(const Immure__MsgDone *message, size_t n_fds, struct job_result *result,
                                 struct err *reterr)
{
    size_t n_attached = 0;
    int r = new_array(message->n_file, sizeof *result->files, &result->files, reterr);
    for (size_t i = 0; r == 0 && i < message->n_file; i++) {
        const Immure__MsgOutputFile *file = message->file[i];
        result->files[i].fd = -1;
        result->files[i].size = file->size;
        result->files[i].asked = file->asked;
        result->files[i].written = file->written;
        result->n_files = i + 1;
        n_attached += file->attached ? 1 : 0;
        r = copy_name(file->path, "done.file.path", &result->files[i].path, reterr);
    }
    if (r == 0 && n_attached != n_fds && n_fds != MSG_FDS_LOST) {
        return wire_refuse(reterr, "done.file.attached", "does not match the descriptors that came along");
    }
    return r;
}

static void attach(const Immure__MsgDone *message, const int *fds, struct job_result *result)
{
    size_t next = 0;
    for (size_t i = 0; i < message->n_file; i++) {
        if (message->file[i]->attached) {
            result->files[i].fd = fds[next++];
        }
    }
}

static int check_verdict(const Immure__MsgDone *message, struct err *reterr)
{
    if (message->status >= JOB_STATUS_COUNT) {
        return wire_refuse(reterr, "done.status", "is not a known status");
    }
    if (message->exit_code < -1 || message->exit_code > 255) {
        return wire_refuse(reterr, "done.exit_code", "is not -1 to 255");
    }
    if (message->has_kernel && (message->kernel == JOB_KERNEL_NONE || message->kernel >= JOB_KERNEL_COUNT)) {
        return wire_refuse(reterr, "done.kernel", "is not a known end");
    }
    if (message->has_session &&
        (message->session == JOB_SESSION_NONE || message->session >= JOB_SESSION_COUNT)) {
        return wire_refuse(reterr, "done.session", "is neither new nor kept");
    }
    if (message->signal >= NSIG) {
        return wire_refuse(reterr, "done.signal", "is not a signal's number");
    }
    return 0;
}

static int result_texts_from_message(const Immure__MsgDone *message, struct job_result *result,
                                     struct err *reterr)
{
    int r = copy_text(message->policy, &result->policy, reterr);
    r = r < 0 ? r : copy_text(message->policy_sha256, &result->policy_sha256, reterr);
    r = r < 0 ? r : copy_text(message->image, &result->image, reterr);
    r = r < 0 ? r : copy_text(message->step, &result->step, reterr);
    return r < 0 ? r : copy_text(message->error_text, &result->error_text, reterr);
}

int job_result_from_message(const Immure__MsgDone *message, const int *fds, size_t n_fds,
                            struct job_result *ret, struct err *reterr)
{
    int r = check_verdict(message, reterr);
    if (r < 0) {
        return r;
    }
    CLEANUP(job_result_clear)
    struct job_result result = {
        .id = message->id,
        .status = (enum job_status)message->status,
        .exit_code = message->exit_code,
        .signal = (int)message->signal,
        .killed = message->killed,
        .oom = message->oom,
        .kernel = message->has_kernel ? (enum job_kernel)message->kernel : JOB_KERNEL_NONE,
        .session = message->has_session ? (enum job_session)message->session : JOB_SESSION_NONE,
        .setup_ns = message->setup_ns,
        .duration_ns = message->duration_ns,
        .has_cpu = message->has_cpu_ns,
        .has_memory_peak = message->has_memory_peak_bytes,
        .has_pids_peak = message->has_pids_peak,
        .cpu_ns = message->cpu_ns,
        .memory_peak_bytes = message->memory_peak_bytes,
        .pids_peak = message->pids_peak,
        .files_truncated = message->files_truncated,
        .enforced_by_cgroup = message->enforced_by_cgroup,
    };
    r = limits_from_message(message->limits, &result.limits, reterr);
    r = r < 0 ? r : result_texts_from_message(message, &result, reterr);
    r = r < 0 ? r : denied_from_messages(message, &result, reterr);
    r = r < 0 ? r : outputs_from_messages(message, n_fds, &result, reterr);
    if (r < 0) {
        return r;
    }
    if (n_fds != MSG_FDS_LOST) {
        attach(message, fds, &result);
    }
    *ret = result;
    result = (struct job_result){0};
    return 0;
}
