/* Jobs whose verdict has come, and the reply. Runs in the front. A caller may have left before that; then
 * there is no reply. */
#include <errno.h>
#include <stdio.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "config/message/job.h"
#include "config/message/message.h"
#include "config/server/config.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/clock.h"
#include "jail/base/err.h"
#include "server/bridge/bridge.h"
#include "server/bridge/egress.h"
#include "server/bridge/proxy.h"
#include "server/callers/admission.h"
#include "server/doors/door.h"
#include "server/doors/error_reply.h"
#include "server/jobs/dispatch.h"
#include "server/jobs/dispatch_internal.h"
#include "server/jobs/front_context.h"
#include "server/jobs/job_io.h"
#include "server/jobs/kept_jobs.h"
#include "server/jobs/request.h"
#include "server/jobs/stream.h"
#include "server/kit/capture.h"
#include "server/kit/log.h"

/* The caller goes, the job goes on. */
static void reply_kept(struct running *job)
{
    struct request *request = job->request;
    request->job = NULL;
    job->request = NULL;
    kept_row_reply_accepted(&job->kept, request);
}

int dispatch_started(struct dispatch *dispatch, uint64_t id)
{
    struct running *job = dispatch_find(dispatch, id);
    if (!job) {
        return -ENOENT;
    }
    execute_request_clear(&job->execute);
    if (job->kept.job_id[0] != '\0' && job->request) {
        reply_kept(job);
    } else if (job->streams && job->request) {
        dispatch_begin_stream(job);
    }
    return 0;
}

static const struct egress_rules *rules_of(const struct front *front, const char *policy)
{
    for (size_t i = 0; i < front->egress_policies.n_policies; i++) {
        if (strcmp(front->egress_policies.policies[i].policy, policy) == 0) {
            return &front->egress_policies.policies[i];
        }
    }
    return NULL;
}

int dispatch_take_egress(struct dispatch *dispatch, const struct msg_egress *egress, int listen_fd)
{
    const struct front *front = dispatch->front;
    const struct egress_rules *rules = rules_of(front, egress->policy);
    struct running *job = dispatch_find(dispatch, egress->id);
    if (!job || job->proxy || !rules || !front->proxy) {
        return -ENOENT;
    }
    int fd = listen_fd < 0 ? -1 : fcntl(listen_fd, F_DUPFD_CLOEXEC, 0);
    job->proxy = fd < 0 ? NULL : proxy_job_new(front->proxy, &job->tools, rules->rules, rules->n_rules, fd);
    if (!job->proxy) {
        LOG(front->log, LOG_WARNING, "no_proxy", LOG_FIELD_STR("execution_id", job->execution_id),
            LOG_FIELD_STR("error", "its program reaches no host: no descriptor, or no memory, was left"));
    }
    return 0;
}

static void reply_setup_error(struct request *request, const struct job_result *result)
{
    struct err err = {.kind = ERR_SETUP};
    snprintf(err.step, sizeof err.step, "%s", result->step ? result->step : "");
    snprintf(err.text, sizeof err.text, "%s",
             result->error_text ? result->error_text : "the jail could not be built");
    request_refuse_err(request, &err, 0);
}

static int encode_result(struct running *job, const struct job_result *result, struct buf *ret,
                         struct err *reterr)
{
    static const struct capture nothing;
    int r = job->io ? job_io_finish(job->io, (size_t)result->limits.output_bytes, reterr) : 0;
    if (r < 0) {
        return r;
    }
    struct job_texts texts = {.execution_id = job->execution_id,
                              .capture = job->io ? job_io_capture(job->io) : &nothing,
                              .output = "",
                              .results_asked = job->results,
                              .queued_ms = (job->queued_ns + NS_PER_MS / 2) / NS_PER_MS,
                              .types = job->dispatch->front->types,
                              .state = job->state,
                              .call = job->request ? job->request->call : NULL};
    if (job->bridge && !job->terminated) {
        texts.output = bridge_output(job->bridge, &texts.output_size);
        texts.results = bridge_results(job->bridge);
    }
    return job->door->encode(result, &texts, ret, reterr);
}

static void reply_result(struct running *job, const struct job_result *result)
{
    struct request *request = job->request;
    struct buf body = BUF_INIT;
    struct err err = {0};
    int r = encode_result(job, result, &body, &err);
    if (r < 0) {
        buf_free(&body);
        request_refuse_err(request, &err, 0);
    } else {
        request_reply(request, 200, "application/json", &body);
    }
}

/* What has not been told yet, and the reply as the last event; an empty one is an error's. */
static void end_stream(struct running *job, struct buf *reply)
{
    if (job->io) {
        job_io_on_output(job->io, NULL, NULL);
    }
    stream_end(job->request->stream, job->door->tells_output ? TAKE_PTR(job->io) : NULL, reply);
}

static void stream_lost(struct running *job, const struct err *err)
{
    struct buf body = BUF_INIT;
    log_err(job->dispatch->front->log, LOG_ERROR, "reply_lost", err);
    if (job->door->encode_refusal) {
        job->door->encode_refusal(job->request->call, err, &body);
        end_stream(job, &body);
        return;
    }
    error_write_err(&body, err);
    stream_event(job->request->stream, "error", &body);
    buf_free(&body);
    end_stream(job, NULL);
}

static void stream_result(struct running *job, const struct job_result *result)
{
    struct buf body = BUF_INIT;
    struct err err = {0};
    if (encode_result(job, result, &body, &err) < 0) {
        buf_free(&body);
        stream_lost(job, &err);
    } else {
        end_stream(job, &body);
    }
}

/* A termination that comes from now on is late. */
static void note_end(const struct running *job)
{
    struct err err = {0};
    if (job->door->evaluator && terminations_note(&job->dispatch->terminations, job->caller.key,
                                                  job->execution_id, NULL, true, clock_now_ns(), &err) < 0) {
        log_err(job->dispatch->front->log, LOG_WARNING, "end_not_noted", &err);
    }
}

/* What the caller of POST /run-code/{execution_id}/terminate gave as its reason. A run that was terminated
 * before it had begun may have been quicker than its end. */
static void take_reason(struct running *job, struct job_result *result)
{
    if (job->terminated && result->status != JOB_SETUP_ERROR) {
        result->status = JOB_CANCELLED;
    }
    if (result->status == JOB_CANCELLED && job->reason) {
        free(result->error_text);
        result->error_text = TAKE_PTR(job->reason);
    }
}

/* A caller that has waited for the decision, and then for this. `lost`: why there is no body; NULL: there is
 * one. */
static void reply_copy(struct running *job, const struct job_result *result, const struct buf *body,
                       const struct err *lost)
{
    struct request *request = job->request;
    struct buf copy = BUF_INIT;
    request->job = NULL;
    job->request = NULL;
    if (result->status == JOB_SETUP_ERROR) {
        reply_setup_error(request, result);
    } else if (lost) {
        request_refuse_err(request, lost, 0);
    } else {
        buf_append(&copy, body->data ? body->data : "", body->len);
        request_reply(request, 200, "application/json", &copy);
    }
}

static void send_kept(const struct running *job, const char *status, struct buf *reply)
{
    kept_result_send(job->dispatch->front->kept_queries, job->id, status, reply);
}

static void keep_approved(struct running *job, const struct job_result *result)
{
    struct buf body = BUF_INIT;
    struct err err = {0};
    int r = encode_result(job, result, &body, &err);
    if (r < 0) {
        log_err(job->dispatch->front->log, LOG_ERROR, "reply_lost", &err);
        buf_free(&body);
    }
    if (job->request) {
        reply_copy(job, result, &body, r < 0 ? &err : NULL);
    }
    send_kept(job, job_status_to_string(result->status), &body);
}

/* A caller that was to hear of the start has waited for nothing if there was none. */
static void keep_result(struct running *job, const struct job_result *result)
{
    struct buf body = BUF_INIT;
    struct err err = {0};
    if (job->request && result->status == JOB_SETUP_ERROR) {
        job->request->job = NULL;
        reply_setup_error(job->request, result);
        return;
    }
    if (job->request) {
        reply_kept(job);
    }
    if (encode_result(job, result, &body, &err) < 0) {
        log_err(job->dispatch->front->log, LOG_ERROR, "reply_lost", &err);
        buf_free(&body);
    }
    send_kept(job, job_status_to_string(result->status), &body);
}

int dispatch_done(struct dispatch *dispatch, struct job_result *result)
{
    struct running *job = dispatch_find(dispatch, result->id);
    if (!job) {
        return -ENOENT;
    }
    egress_job_free(TAKE_PTR(job->egress));
    proxy_job_free(TAKE_PTR(job->proxy));
    bridge_finish(job->bridge);
    take_reason(job, result);
    dispatch_record(job, result);
    if (result->status != JOB_SETUP_ERROR) {
        admission_note_time(dispatch->admission, (result->setup_ns + result->duration_ns) / NS_PER_MS);
    }
    dispatch_unlink(job);
    note_end(job);
    if (job->approved) {
        keep_approved(job, result);
    } else if (job->kept.job_id[0] != '\0') {
        keep_result(job, result);
    } else if (job->request) {
        job->request->job = NULL;
        if (job->streams && result->status != JOB_SETUP_ERROR) {
            dispatch_begin_stream(job); /* unless it has begun */
        }
        if (job->request->stream) {
            stream_result(job, result);
        } else if (result->status == JOB_SETUP_ERROR) {
            reply_setup_error(job->request, result);
        } else {
            reply_result(job, result);
        }
    }
    dispatch_job_free(job);
    dispatch_tend(dispatch);
    return 0;
}

/* As a job that runs, and has come to nothing. */
static void end_waiting(struct running *job)
{
    struct job_result result = {.status = JOB_CANCELLED, .exit_code = -1};
    dispatch_note_waited(job, false);
    dispatch_unlink(job);
    job->request->job = NULL;
    take_reason(job, &result);
    if (job->streams) {
        dispatch_begin_stream(job);
    }
    if (job->request->stream) {
        stream_result(job, &result);
    } else {
        reply_result(job, &result);
    }
    note_end(job);
    dispatch_job_free(job);
    job_result_clear(&result);
}

/* `reason` (NULL: none) becomes the verdict's sentence. One that waits is gone afterwards. */
static void end(struct running *job, const char *reason)
{
    if (!job->reason && reason) {
        job->reason = strdup(reason);
    }
    job->ended = true;
    if (job->wait.queue) {
        end_waiting(job);
    } else {
        dispatch_send_cancel(job);
    }
}

int dispatch_heed_termination(struct request *request)
{
    struct running *job = request->job;
    const struct termination *early = job && job->door->evaluator
                                          ? terminations_find(&job->dispatch->terminations, job->caller.key,
                                                              job->execution_id, clock_now_ns())
                                          : NULL;
    if (early && !early->is_late) {
        job->terminated = true;
        end(job, early->reason);
    }
    return 0;
}

bool dispatch_end_runs(struct dispatch *dispatch, const struct key_config *key, const char *execution_id,
                       const char *reason)
{
    bool known = terminations_find(&dispatch->terminations, key, execution_id, clock_now_ns()) != NULL;
    for (struct running *job = dispatch->jobs, *next; job; job = next) {
        next = job->next;
        if (job->door->evaluator && job->caller.key == key && strcmp(job->execution_id, execution_id) == 0) {
            end(job, reason);
            known = true;
        }
    }
    return known;
}

int dispatch_note_termination(struct dispatch *dispatch, const struct key_config *key,
                              const char *execution_id, const char *reason, struct err *reterr)
{
    return terminations_note(&dispatch->terminations, key, execution_id, reason, false, clock_now_ns(),
                             reterr);
}

/* The policy's errors name the field in `item` only; ours, and so a caller's, in the sentence as well. */
static void refusal_as_err(const struct running *job, const struct msg_refused *refused, struct err *ret)
{
    *ret = (struct err){.kind = refused->kind};
    if (job->door->rename_refusal && job->door->rename_refusal(refused->item, refused->text, ret)) {
        return;
    }
    memcpy(ret->item, refused->item, sizeof ret->item);
    bool named = *refused->item == '\0' || strncmp(refused->text, refused->item, strlen(refused->item)) == 0;
    snprintf(ret->text, sizeof ret->text, "%s%s%.250s", named ? "" : refused->item, named ? "" : ": ",
             refused->text);
}

/* An approved job has not begun, and waits on; so does its caller. */
static void wait_on(struct running *job)
{
    if (job->request) {
        job->request->job = NULL;
        struct dispatch_waiting *waiting = TAKE_PTR(job->waiting);
        waiting->resume(waiting, job->request);
    }
    dispatch_job_free(job);
}

/* A program that has begun is refused no more: it has ended, and what came of it is lost. */
static void refuse(struct running *job, const struct err *err, uint64_t retry_after_ms)
{
    struct err ignored = {0};
    if (job->request->stream) {
        job_io_finish(job->io, 0, &ignored);
        stream_lost(job, err);
    } else {
        request_refuse_err(job->request, err, retry_after_ms);
    }
}

int dispatch_refused(struct dispatch *dispatch, const struct msg_refused *refused)
{
    struct running *job = dispatch_find(dispatch, refused->id);
    if (!job) {
        return -ENOENT;
    }
    if (refused->no_slot && dispatch_may_wait(job)) {
        if (job->ended) {
            end_waiting(job);
        } else {
            dispatch_wait(job, true);
        }
        return 0;
    }
    struct err err;
    uint64_t retry_after_ms = refused->no_slot
                                  ? admission_retry_after_ms(dispatch->admission, refused->retry_after_ms)
                                  : refused->retry_after_ms;
    refusal_as_err(job, refused, &err);
    dispatch_unlink(job);
    if (job->approved && err.kind == ERR_BUSY) {
        wait_on(job);
        return 0;
    }
    bool was_told = job->kept.job_id[0] != '\0' && !job->request; /* that it runs */
    if (job->request) {
        job->request->job = NULL;
        refuse(job, &err, retry_after_ms);
    }
    if (job->approved || was_told) {
        struct buf body = BUF_INIT;
        error_write_err(&body, &err);
        send_kept(job, "refused", &body);
    }
    dispatch_job_free(job);
    dispatch_tend(dispatch); /* it was thought to have a slot */
    return 0;
}
