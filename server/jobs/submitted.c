/* Between a request and what the warden keeps of it while it waits for approval. Runs in the front. */
#include "server/jobs/submitted.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "config/format/digest.h"
#include "config/message/approval.h"
#include "config/message/job.h"
#include "config/message/message.h"
#include "config/server/config.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "jail/base/io.h"
#include "server/doors/door.h"
#include "server/doors/execute.h"
#include "server/jobs/front_context.h"
#include "server/jobs/request.h"

static int too_large(const struct server_config *config, struct err *reterr)
{
    return err_set(reterr, ERR_TOO_LARGE, EFBIG, NULL,
                   "a job that waits for approval may have %llu bytes, its files and stdin included",
                   (unsigned long long)config->max_approval_job_bytes);
}

static int pack_text(const struct request *request, const struct execute_request *execute, struct buf *ret,
                     struct err *reterr)
{
    const struct server_config *config = request->front->config;
    size_t size = (size_t)execute->input.size;
    if (execute->calls_held) {
        return err_set(
            reterr, ERR_INVALID, EINVAL, "calls",
            "calls: \"stream\" is not for a policy that asks for approvals; give a `callback_url`");
    }
    if (size > config->max_approval_job_bytes || execute->stdin_size > config->max_approval_job_bytes) {
        return too_large(config, reterr);
    }
    CLEANUP(freep) char *input = malloc(size + 1);
    if (!input || pread(execute->input.fd, input, size, 0) != (ssize_t)size) {
        return err_errno(reterr, input ? EIO : ENOMEM, "submitting a job for approval");
    }
    const struct submission submission = {
        .job = execute->job,
        .input = input,
        .input_size = size,
        .stdin_data = execute->stdin_data,
        .stdin_size = execute->stdin_size,
        .callback_url = execute->callback_url,
        .request_id = (char *)(uintptr_t)request->id,
        .traceparent = request->traceparent[0] ? (char *)(uintptr_t)request->traceparent : NULL,
    };
    int r = submission_encode(&submission, ret);
    if (r < 0) {
        return err_errno(reterr, -r, "submitting a job for approval");
    }
    return ret->len > config->max_approval_job_bytes ? too_large(config, reterr) : 0;
}

/* The warden takes nothing that could still change. */
static int sealed_file(const struct buf *data, int *ret_fd, struct err *reterr)
{
    CLEANUP(fd_closep) int fd = -1;
    int r = io_memfd("submission", data->data, data->len, &fd);
    r = r < 0 ? r : io_memfd_seal(&fd, data->len);
    if (r == -EBUSY) {
        return err_set(reterr, ERR_BUSY, EBUSY, NULL, "server busy: the job could not be sealed");
    }
    if (r < 0) {
        return err_errno(reterr, -r, "submitting a job for approval");
    }
    *ret_fd = TAKE_FD(fd);
    return 0;
}

int submitted_pack(const struct request *request, const struct execute_request *execute, int *ret_fd,
                   struct err *reterr)
{
    CLEANUP(buf_free) struct buf packed = BUF_INIT;
    int r = pack_text(request, execute, &packed, reterr);
    return r < 0 ? r : sealed_file(&packed, ret_fd, reterr);
}

int submitted_read(int fd, struct submission *ret, struct err *reterr)
{
    CLEANUP(buf_free) struct buf data = BUF_INIT;
    int r = lseek(fd, 0, SEEK_SET) < 0 ? -errno : io_read_fd(fd, MSG_SUBMISSION_MAX, &data);
    if (r < 0) {
        return err_errno(reterr, -r, "reading a job that waits for approval");
    }
    return submission_decode(data.data ? data.data : "", data.len, ret, reterr);
}

int submitted_unpack(const struct server_config *config, struct submission *submission,
                     struct execute_request *ret, struct err *reterr)
{
    ret->runtime = server_config_runtime(config, submission->job->runtime);
    if (!ret->runtime) {
        return err_set(reterr, ERR_INTERNAL, EPROTO, NULL, "there is no runtime for an approved job");
    }
    ret->door = &execute_door;
    sha256_hex_of(submission->input, (size_t)submission->job->code_size, ret->code_sha256);
    int r = input_new(&ret->input, reterr);
    r = r < 0 ? r : input_append(&ret->input, submission->input, submission->input_size, reterr);
    if (r < 0) {
        return r;
    }
    /* A callback that is not allowed any more is none: its calls fail, and say so. */
    if (submission->callback_url) {
        execute_decode_callback(submission->callback_url, config, &ret->callback_url, NULL);
    }
    ret->job = TAKE_PTR(submission->job);
    ret->stdin_data = TAKE_PTR(submission->stdin_data);
    ret->stdin_size = submission->stdin_size;
    return 0;
}
