/* The words that jobs and their results are told in, and the names that they may have. Runs in the front, the
 * warden and the command line. */
#include "config/message/job.h"

#include <stdlib.h>
#include <string.h>

#include "config/format/utf8.h"

void job_clear_named(struct job *job)
{
    for (size_t i = 0; i < job->n_named; i++) {
        free(job->named[i]);
    }
    free(job->named);
    job->named = NULL;
    job->n_named = 0;
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
