/* The memory of jobs and their results. Runs in the front, the warden and the command line. */
#include "config/message/job.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config/format/utf8.h"

static void strings_free(char **strings, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        free(strings[i]);
    }
    free(strings);
}

void job_clear_named(struct job *job)
{
    strings_free(job->named, job->n_named);
    job->named = NULL;
    job->n_named = 0;
}

void job_free(struct job *job)
{
    if (!job) {
        return;
    }
    free(job->runtime);
    free(job->policy);
    free(job->execution_id);
    free(job->key);
    free(job->session_id);
    free(job->image);
    free(job->kept_id);
    for (size_t i = 0; i < job->n_files; i++) {
        free(job->files[i].path);
    }
    free(job->files);
    strings_free(job->args, job->n_args);
    for (size_t i = 0; i < job->n_env; i++) {
        free(job->env[i].name);
        free(job->env[i].value);
    }
    free(job->env);
    strings_free(job->outputs, job->n_outputs);
    job_clear_named(job);
    free(job);
}

const char *job_status_to_string(enum job_status status)
{
    static const char *const names[JOB_STATUS_COUNT] = {
        [JOB_SUCCESS] = "success",     [JOB_EXECUTION_ERROR] = "execution_error",
        [JOB_TIMEOUT] = "timeout",     [JOB_OOM] = "oom",
        [JOB_CANCELLED] = "cancelled", [JOB_SETUP_ERROR] = "setup_error",
    };
    return (size_t)status < JOB_STATUS_COUNT ? names[status] : "unknown";
}

const char *job_kernel_to_string(enum job_kernel kernel)
{
    static const char *const names[JOB_KERNEL_COUNT] = {
        [JOB_KERNEL_NEW] = "new", [JOB_KERNEL_KEPT] = "kept", [JOB_KERNEL_ENDED] = "ended"};
    return (size_t)kernel < JOB_KERNEL_COUNT ? names[kernel] : NULL;
}

const char *job_session_to_string(enum job_session session)
{
    static const char *const names[JOB_SESSION_COUNT] = {
        [JOB_SESSION_NEW] = "new", [JOB_SESSION_KEPT] = "kept"};
    return (size_t)session < JOB_SESSION_COUNT ? names[session] : NULL;
}

void job_result_clear(struct job_result *result)
{
    for (size_t i = 0; i < result->n_denied; i++) {
        free(result->denied[i].name);
    }
    free(result->denied);
    for (size_t i = 0; i < result->n_files; i++) {
        free(result->files[i].path);
        if (result->files[i].fd >= 0) {
            close(result->files[i].fd);
        }
    }
    free(result->files);
    free(result->policy);
    free(result->policy_sha256);
    free(result->image);
    free(result->step);
    free(result->error_text);
    *result = (struct job_result){0};
}

/* C0, DEL and, in two bytes, C1. */
static bool is_control(const char *character)
{
    unsigned char first = (unsigned char)character[0], second = (unsigned char)character[1];
    return first < 0x20 || first == 0x7f || (first == 0xc2 && second < 0xa0);
}

bool session_id_is_valid(const char *session_id)
{
    size_t len = strlen(session_id);
    if (len == 0 || len >= SESSION_ID_BYTES || !utf8_is_valid(session_id, len)) {
        return false;
    }
    while (*session_id && !is_control(session_id)) {
        session_id++;
    }
    return *session_id == '\0';
}

bool job_id_is_valid(const char *id)
{
    return strlen(id) == KEPT_ID_BYTES - 1 && strspn(id, "0123456789abcdef-") == KEPT_ID_BYTES - 1;
}

bool image_name_is_valid(const char *name)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyz0123456789._-";
    size_t len = strlen(name);
    return len > 0 && len < IMAGE_NAME_BYTES && !strchr("._-", name[0]) && strspn(name, allowed) == len;
}
