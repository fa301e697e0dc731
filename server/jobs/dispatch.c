/* Jobs between request and verdict. Runs in the front. Every job has a number; the warden answers each once,
 * with a refusal or a verdict. A caller may leave before that: the job stays here until the warden's answer,
 * for the audit log and the counters, and its request is forgotten. */
#include "server/jobs/dispatch.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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
#include "server/bridge/tools.h"
#include "server/callers/admission.h"
#include "server/doors/door.h"
#include "server/jobs/dispatch_internal.h"
#include "server/jobs/front_context.h"
#include "server/jobs/job_io.h"
#include "server/jobs/kept_jobs.h"
#include "server/jobs/request.h"
#include "server/jobs/stream.h"
#include "server/kit/log.h"
#include "server/kit/metrics.h"
#include "server/link/channel.h"

int dispatch_new(struct front *front, struct channel *channel, struct dispatch **ret, struct err *reterr)
{
    struct dispatch *dispatch = calloc(1, sizeof *dispatch);
    struct admission *admission = admission_new(front->config);
    if (!dispatch || !admission) {
        free(dispatch);
        admission_free(admission);
        return err_errno(reterr, ENOMEM, "making the table of jobs");
    }
    /* Numbers are unique over restarts of the front: no front starts a job per nanosecond. */
    *dispatch = (struct dispatch){
        .front = front, .channel = channel, .admission = admission, .last_id = clock_now_ns()};
    int r = dispatch_wait_open(dispatch, reterr);
    if (r < 0) {
        dispatch_free(dispatch);
        return r;
    }
    *ret = dispatch;
    return 0;
}

int dispatch_set_keys(struct dispatch *dispatch)
{
    const struct server_config *config = dispatch->front->config;
    int r = slot_queue_set_keys(dispatch->queue, config->n_keys, config->n_accounts);
    return r < 0 ? r : admission_set_accounts(dispatch->admission);
}

void dispatch_show_jobs(const struct dispatch *dispatch)
{
    const struct front *front = dispatch->front;
    metrics_set(front->metrics, METRIC_JOBS_RUNNING, NULL, NULL,
                (double)dispatch_jobs_sent(dispatch) + front->state.jobs_elsewhere);
    metrics_set(front->metrics, METRIC_JOBS_QUEUED, NULL, NULL, (double)slot_queue_count(dispatch->queue));
}

void dispatch_take_state(struct dispatch *dispatch)
{
    dispatch_show_jobs(dispatch);
    dispatch_tend(dispatch);
}

void dispatch_job_free(struct running *job)
{
    if (job) {
        job_io_free(job->io);
        egress_job_free(job->egress);
        proxy_job_free(job->proxy);
        bridge_free(job->bridge);
        free(job->callback_url);
        free(job->execution_id);
        free(job->session_id);
        free(job->reason);
        free(job->code);
        slot_wait_leave(&job->wait);
        execute_request_clear(&job->execute);
        if (job->state) {
            job->door->state_free(job->state);
        }
        if (job->waiting) {
            job->waiting->resume(job->waiting, NULL);
        }
        free(job);
    }
}

static void link_job(struct running *job)
{
    struct dispatch *dispatch = job->dispatch;
    job->next = dispatch->jobs;
    if (job->next) {
        job->next->previous = job;
    }
    dispatch->jobs = job;
    dispatch->n_jobs++;
    dispatch_show_jobs(dispatch);
    if (job->request) {
        job->request->job = job;
    }
}

void dispatch_unlink(struct running *job)
{
    struct dispatch *dispatch = job->dispatch;
    *(job->previous ? &job->previous->next : &dispatch->jobs) = job->next;
    if (job->next) {
        job->next->previous = job->previous;
    }
    dispatch->n_jobs--;
    slot_wait_leave(&job->wait);
    dispatch_show_jobs(dispatch);
}

void dispatch_free(struct dispatch *dispatch)
{
    while (dispatch && dispatch->jobs) {
        struct running *job = dispatch->jobs;
        dispatch_unlink(job);
        dispatch_job_free(job);
    }
    if (dispatch) {
        dispatch_wait_close(dispatch);
        terminations_clear(&dispatch->terminations);
        admission_free(dispatch->admission);
    }
    free(dispatch);
}

size_t dispatch_jobs(const struct dispatch *dispatch)
{
    return dispatch->n_jobs;
}

size_t dispatch_jobs_sent(const struct dispatch *dispatch)
{
    return dispatch->n_jobs - slot_queue_count(dispatch->queue);
}

struct running *dispatch_next(const struct dispatch *dispatch, const struct running *job)
{
    return job ? job->next : dispatch->jobs;
}

struct request *dispatch_request(const struct running *job)
{
    return job->request;
}

struct running *dispatch_find(const struct dispatch *dispatch, uint64_t id)
{
    struct running *job = dispatch->jobs;
    while (job && job->id != id) {
        job = job->next;
    }
    return job;
}

static bool same_team(const struct caller *a, const struct caller *b)
{
    return a->key && b->key && a->key->team && b->key->team && a->key->team[0] != '\0' &&
           strcmp(a->key->team, b->key->team) == 0;
}

int dispatch_check_load(const struct dispatch *dispatch, const struct caller *caller,
                        uint64_t *ret_retry_after_ms, struct err *reterr)
{
    struct admission_load load = {.earliest_end_ns = UINT64_MAX};
    for (const struct running *job = dispatch->jobs; job; job = job->next) {
        bool waits = job->wait.queue != NULL;
        bool of_key = !waits && job->caller.key == caller->key;
        bool of_team = !waits && same_team(&job->caller, caller);
        load.of_key += of_key;
        load.of_team += of_team;
        if ((of_key || of_team) && job->deadline_ns < load.earliest_end_ns) {
            load.earliest_end_ns = job->deadline_ns;
        }
    }
    int r = admission_check_load(dispatch->front->config, caller, &load, clock_now_ns(), ret_retry_after_ms,
                                 reterr);
    if (r < 0) {
        *ret_retry_after_ms = admission_retry_after_ms(dispatch->admission, *ret_retry_after_ms);
    }
    return r;
}

/* The key's own ceiling. */
static void lower_timeout(const struct dispatch *dispatch, const struct key_config *key, struct job *job)
{
    uint64_t *timeout_ms = &job->limits.timeout_ms;
    if (key && key->max.timeout_ms > 0) {
        uint64_t wish = *timeout_ms > 0 ? *timeout_ms : dispatch->front->config->default_timeout_ms;
        *timeout_ms = wish < key->max.timeout_ms ? wish : key->max.timeout_ms;
    }
}

static void set_tools(struct running *job, const struct execute_request *execute)
{
    const struct front *front = job->dispatch->front;
    job->tools = (struct tools){.callbacks = front->callbacks,
                                .audit = front->audit,
                                .metrics = front->metrics,
                                .timeout_ms = front->config->tool_timeout_ms,
                                .execution_id = job->execution_id,
                                .key = job->caller.name,
                                .request_id = job->request_id,
                                .traceparent = job->traceparent,
                                .trace = &job->trace,
                                .spans = front->spans,
                                .callback_url = job->callback_url,
                                .owner = job->caller.key,
                                .functions = execute->functions,
                                .held = execute->calls_held ? front->held_calls : NULL,
                                .max_answer_bytes = front->config->max_tool_answer_bytes,
                                .tell = dispatch_tell_call,
                                .tell_arg = job};
}

/* Takes what `execute` holds where it succeeds. */
static struct running *running_new(struct dispatch *dispatch, struct request *request,
                                   const struct dispatch_origin *origin, struct execute_request *execute)
{
    struct running *job = calloc(1, sizeof *job);
    char *execution_id = strdup(execute->job->execution_id);
    const char *session = execute->job->session_id;
    char *session_id = session ? strdup(session) : NULL;
    if (!job || !execution_id || (session && !session_id)) {
        free(job);
        free(execution_id);
        free(session_id);
        return NULL;
    }
    *job = (struct running){
        .dispatch = dispatch,
        .request = request,
        .caller = *origin->caller,
        .door = execute->door,
        .runtime = execute->runtime,
        .execution_id = execution_id,
        .session_id = session_id,
        .start_ns = origin->start_ns,
        .results = execute->job->results,
    };
    job->callback_url = TAKE_PTR(execute->callback_url);
    job->state = TAKE_PTR(execute->state);
    snprintf(job->request_id, sizeof job->request_id, "%s", origin->request_id);
    snprintf(job->traceparent, sizeof job->traceparent, "%s", origin->traceparent ? origin->traceparent : "");
    if (origin->trace) {
        trace_child(origin->trace, &job->trace);
    } else {
        trace_begin(dispatch->front->spans, job->traceparent, &job->trace);
    }
    memcpy(job->code_sha256, execute->code_sha256, sizeof job->code_sha256);
    set_tools(job, execute);
    job->execute = *execute;
    *execute = EXECUTE_REQUEST_INIT;
    return job;
}

static size_t output_limit(const struct server_config *config, const struct job *job)
{
    uint64_t wish = job->limits.output_bytes;
    return (size_t)(wish > 0 && wish < config->max_output_bytes ? wish : config->max_output_bytes);
}

static void on_output(void *arg)
{
    const struct running *job = arg;
    if (job->request) {
        stream_wake(job->request->stream);
    }
}

/* Out of memory, it is an ordinary request again. */
void dispatch_begin_stream(struct running *job)
{
    struct request *request = job->request;
    struct err err = {0};
    if (request->stream) {
        return;
    }
    const struct door *door = job->door;
    const struct job_io *io = door->tells_output ? job->io : NULL;
    if (stream_new(job->dispatch->front->streams, request, io, &request->stream, &err) < 0) {
        log_err(job->dispatch->front->log, LOG_ERROR, "no_stream", &err);
        job->streams = false;
        return;
    }
    CLEANUP(buf_free) struct buf progress = BUF_INIT;
    if (door->encode_progress && door->encode_progress(request->call, "running", &progress)) {
        stream_event(request->stream, door->reply_event, &progress);
    }
    if (job->io) {
        job_io_on_output(job->io, on_output, job);
    }
    request_reply_events(request);
}

/* A program that calls a tool has started, whoever tells us of that first. */
static void on_call(void *arg, struct bridge_call *call)
{
    struct running *job = arg;
    if (job->streams && job->request) {
        dispatch_begin_stream(job);
    }
    if (job->request && job->door->tells_output && !job->tools.held) {
        stream_tool_call(job->request->stream, call->name);
    }
    tools_call(&job->tools, call);
}

static void on_cancel(void *arg, struct bridge_call *call)
{
    const struct running *job = arg;
    tools_cancel(&job->tools, call);
}

/* The program has given a result: its files are the warden's to find. */
static void on_outputs(void *arg, char *const *paths, size_t n)
{
    struct running *job = arg;
    struct err err = {0};
    struct msg msg = {.type = MSG_OUTPUTS};
    msg.outputs = (struct msg_outputs){.id = job->id, .paths = (char **)(uintptr_t)paths, .n_paths = n};
    if ((n > 0 || job->has_outputs) && channel_send(job->dispatch->channel, &msg, NULL, 0, &err) < 0) {
        log_err(job->dispatch->front->log, LOG_WARNING, "outputs_failed", &err);
    }
    job->has_outputs = n > 0;
}

static void on_event(void *arg, const struct json_slice *kind, const struct json_slice *data)
{
    struct running *job = arg;
    const struct buf *told;
    const char *event = job->door->note(job->state, kind, data, &told);
    if (event && job->streams && job->request) {
        dispatch_begin_stream(job);
        stream_event(job->request->stream, event, told);
    }
}

static void on_show(void *arg, const char *json_text, size_t size)
{
    struct running *job = arg;
    if (job->streams && job->request && job->door->tells_output) {
        dispatch_begin_stream(job);
        dispatch_tell_shown(job, json_text, size);
    }
}

static const char *on_other(void *arg, const char *data, size_t size)
{
    struct running *job = arg;
    if (job->door->evaluator) {
        return "a frame of an unknown kind"; /* an evaluator installs nothing */
    }
    if (!job->egress) {
        job->egress = egress_job_new(job->dispatch->front->egress, &job->tools, job->bridge);
    }
    return job->egress ? egress_take(job->egress, data, size) : "out of memory";
}

static void on_broken(void *arg, const char *why)
{
    struct running *job = arg;
    egress_job_free(TAKE_PTR(job->egress));
    LOG(job->dispatch->front->log, LOG_WARNING, "bridge_closed",
        LOG_FIELD_STR("execution_id", job->execution_id), LOG_FIELD_STR("key", job->caller.name),
        LOG_FIELD_STR("reason", why));
}

static const struct bridge_events bridge_events = {on_call, on_cancel, on_outputs, on_event,
                                                   on_show, on_other,  on_broken};

static struct bridge_limits bridge_limits(const struct server_config *config, bool evaluator)
{
    return (struct bridge_limits){.frame_bytes = (size_t)config->max_tool_frame_bytes,
                                  .total_bytes = config->max_tool_bytes,
                                  .calls = config->max_tool_calls,
                                  .calls_in_flight = config->max_tool_calls_in_flight,
                                  .result_bytes = (size_t)config->max_result_bytes,
                                  .evaluator = evaluator,
                                  .other_bytes = config->n_egress > 0 ? EGRESS_WAITING_BYTES : 0};
}

/* The program's ends of everything, in the order of MSG_JOB's descriptors behind the input. */
static int open_pipes(struct running *job, struct execute_request *execute, int ret_ends[],
                      struct err *reterr)
{
    struct front *front = job->dispatch->front;
    const struct bridge_limits limits = bridge_limits(front->config, job->door->evaluator);
    int r = job_io_new(front->loop, output_limit(front->config, execute->job), execute->stdin_data,
                       execute->stdin_size, ret_ends, &job->io, reterr);
    if (r < 0) {
        return r;
    }
    execute->stdin_data = NULL;
    return bridge_new(front->loop, &limits, &bridge_events, job, ret_ends + JOB_IO_ENDS, &job->bridge,
                      reterr);
}

/* Pipes and message. The program's ends are the warden's from here on, and the job itself, unless it has that
 * already. */
static int send_job(struct running *job, const char *approval_id, struct err *reterr)
{
    struct execute_request *execute = &job->execute;
    const struct server_config *config = job->dispatch->front->config;
    int fds[MSG_JOB_FDS] = {execute->input.fd, -1, -1, -1, -1, -1};
    uint64_t timeout_ms = execute->job->limits.timeout_ms;
    job->deadline_ns = clock_now_ns() + (timeout_ms ? timeout_ms : config->default_timeout_ms) * NS_PER_MS;
    job->tools.deadline_ns = job->deadline_ns;
    job->id = ++job->dispatch->last_id;
    int r = open_pipes(job, execute, fds + 1, reterr);
    if (r == 0) {
        execute->job->id = job->id;
        execute->job->early_ms = job->callback_url ? config->callback_margin_ms : 0;
        struct msg msg = {.type = MSG_JOB, .job = execute->job};
        size_t skip = 0;
        if (approval_id) {
            msg = (struct msg){.type = MSG_RUN, .run = {.id = job->id}};
            memcpy(msg.run.approval_id, approval_id, sizeof msg.run.approval_id);
            skip = 1; /* the input */
        }
        r = channel_send(job->dispatch->channel, &msg, fds + skip, ARRAY_SIZE(fds) - skip, reterr);
    }
    for (size_t i = 1; i < ARRAY_SIZE(fds); i++) {
        fd_closep(&fds[i]);
    }
    return r;
}

int dispatch_launch(struct running *job, struct err *reterr)
{
    struct execute_request *execute = &job->execute;
    if (!server_config_has_key(job->dispatch->front->config, job->caller.key)) {
        return err_set(reterr, ERR_DENIED, EPERM, NULL, "this key is not valid any more");
    }
    bool may_wait = clock_now_ns() < job->wait.until_ns;
    char *stdin_data = NULL; /* a second one, for its next way to the warden */
    if (may_wait && execute->stdin_size > 0) {
        stdin_data = malloc(execute->stdin_size);
        if (!stdin_data) {
            return err_errno(reterr, ENOMEM, "starting a job");
        }
        memcpy(stdin_data, execute->stdin_data, execute->stdin_size);
    }
    int r = send_job(job, NULL, reterr);
    if (r < 0) {
        free(stdin_data);
        return r;
    }
    execute->stdin_data = stdin_data;
    if (!may_wait) {
        execute_request_clear(execute);
    }
    return 0;
}

/* The caller's team, and its rate. What other jobs leave room for may change while a job waits. */
static int check_caller(const struct dispatch *dispatch, const struct caller *caller, struct job *job,
                        uint64_t *ret_retry_after_ms, struct err *reterr)
{
    int r = admission_check(dispatch->admission, caller, clock_now_ns(), ret_retry_after_ms, reterr);
    if (r == 0) {
        lower_timeout(dispatch, caller->key, job);
    }
    return r;
}

int dispatch_check(struct dispatch *dispatch, const struct caller *caller, struct job *job,
                   uint64_t *ret_retry_after_ms, struct err *reterr)
{
    int r = check_caller(dispatch, caller, job, ret_retry_after_ms, reterr);
    return r < 0 ? r : dispatch_check_load(dispatch, caller, ret_retry_after_ms, reterr);
}

void dispatch_count(struct dispatch *dispatch, const struct caller *caller)
{
    admission_take(dispatch->admission, caller, clock_now_ns());
}

/* The warden keeps its result, for whoever asks under its id. */
static int keep(struct running *job, struct job *asked, struct err *reterr)
{
    kept_row_begin(&job->kept, job->execution_id, job->runtime->name);
    free(asked->kept_id);
    asked->kept_id = strdup(job->kept.job_id);
    asked->created_ms = job->kept.created_ms;
    return asked->kept_id ? 0 : err_errno(reterr, ENOMEM, "starting a job");
}

int dispatch_start(struct dispatch *dispatch, struct request *request, struct execute_request *execute,
                   enum dispatch_way way, uint64_t *ret_retry_after_ms, struct err *reterr)
{
    int r = check_caller(dispatch, &request->caller, execute->job, ret_retry_after_ms, reterr);
    if (r < 0) {
        return r;
    }
    const struct dispatch_origin origin = {.caller = &request->caller,
                                           .request_id = request->id,
                                           .traceparent = request->traceparent,
                                           .trace = &request->trace,
                                           .start_ns = request->start_ns};
    struct running *job = running_new(dispatch, request, &origin, execute);
    if (!job) {
        return err_errno(reterr, ENOMEM, "starting a job");
    }
    dispatch_allow_wait(job);
    job->streams = way == DISPATCH_STREAM;
    job->execute.job->announce = way != DISPATCH_REPLY || job->wait.until_ns > 0;
    bool waits = dispatch_must_wait(job);
    r = waits && !dispatch_may_wait(job)
            ? dispatch_no_slot(dispatch, &job->caller, ret_retry_after_ms, reterr)
            : dispatch_keep_code(job, reterr);
    r = r == 0 && way == DISPATCH_KEEP ? keep(job, job->execute.job, reterr) : r;
    r = r < 0 || waits ? r : dispatch_launch(job, reterr);
    if (r < 0) {
        dispatch_job_free(job);
        return r;
    }
    dispatch_count(dispatch, &job->caller);
    link_job(job);
    if (waits) {
        dispatch_wait(job, false);
    }
    return 0;
}

int dispatch_run(struct dispatch *dispatch, struct request *request, const struct dispatch_origin *origin,
                 struct execute_request *execute, struct err *reterr)
{
    struct running *job = running_new(dispatch, request, origin, execute);
    if (!job) {
        return err_errno(reterr, ENOMEM, "starting a job");
    }
    job->approved = true;
    int r = dispatch_keep_code(job, reterr);
    r = r < 0 ? r : send_job(job, origin->approval_id, reterr);
    if (r < 0) {
        dispatch_job_free(job);
        return r;
    }
    job->waiting = origin->waiting;
    execute_request_clear(&job->execute);
    link_job(job);
    return 0;
}

void dispatch_send_cancel(const struct running *job)
{
    struct msg msg = {.type = MSG_CANCEL, .cancel = {.id = job->id}};
    struct err err = {0};
    if (channel_send(job->dispatch->channel, &msg, NULL, 0, &err) < 0) {
        log_err(job->dispatch->front->log, LOG_WARNING, "cancel_failed", &err);
    }
}

void dispatch_cancel(struct running *job)
{
    stream_end(job->request->stream, NULL, NULL);
    job->request->job = NULL;
    job->request = NULL;
    if (job->approved) {
        return; /* it was somebody's decision that it runs; its result is kept */
    }
    job->kept.job_id[0] = '\0'; /* nobody has heard of it: with this the warden forgets it, too */
    if (job->wait.queue) {
        dispatch_note_waited(job, false);
        dispatch_unlink(job);
        dispatch_job_free(job);
    } else {
        dispatch_send_cancel(job);
    }
}
