/* Jobs that wait for approval, in the front, which knows of none itself: it submits them to the warden,
 * passes questions and decisions on, and runs what the warden tells it to.
 *
 *     request ─ SUBMIT ─► answer ─┬─► 202, or it waits for the decision, and then for the result
 *                                 └─► it needs none: an ordinary job
 *     RUN ─► a job without a caller, or with the one that has waited; its result is kept (kept_jobs.c) */
#include "server/jobs/approvals.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "config/message/job.h"
#include "config/server/config.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/clock.h"
#include "jail/base/err.h"
#include "jail/base/io.h"
#include "jail/base/loop.h"
#include "server/doors/approval.h"
#include "server/doors/execute.h"
#include "server/jobs/front_context.h"
#include "server/jobs/request.h"
#include "server/jobs/submitted.h"
#include "server/kit/log.h"
#include "server/link/channel.h"

#define ROWS_BYTES_MAX (64u << 20)

enum pending_kind {
    PENDING_SUBMIT, /* the answer to a submission */
    PENDING_LIST,
    PENDING_ONE,
    PENDING_DECISION, /* of an approver about the request's job */
};

/* What a request waits for. */
struct approval_pending {
    struct dispatch_waiting waiting;
    struct approval_pending *next;
    struct request *request; /* NULL: the caller has gone */
    enum pending_kind kind;
    uint64_t id;                    /* of the question */
    struct execute_request execute; /* SUBMIT */
    enum dispatch_way way;
    struct approval approval; /* DECISION */
    uint64_t until_ns;
};

struct front_approvals {
    struct front *front;
    struct channel *channel;
    char **held;
    size_t n_held;
    struct approval_pending *first;
    uint64_t last_id;
    struct loop_source *timer;
};

static void pending_free(struct approval_pending *pending)
{
    if (pending->request) {
        pending->request->approval = NULL;
    }
    execute_request_clear(&pending->execute);
    free(pending);
}

static void unlink_pending(struct front_approvals *approvals, struct approval_pending *pending)
{
    struct approval_pending **at = &approvals->first;
    while (*at != pending) {
        at = &(*at)->next;
    }
    *at = pending->next;
}

/* ---- Waiting for a decision ---- */

/* Another front runs what is approved, or nobody does. */
static bool is_leaving(const struct front *front)
{
    return front->draining || front->state.superseded;
}

static void reply_required(struct request *request, const struct approval *approval)
{
    char location[APPROVAL_ID_BYTES + 16];
    struct buf body = BUF_INIT;
    if (!request->door->keeps) {
        struct err err = {0};
        err_set(
            &err, ERR_APPROVAL, 0, NULL,
            "approval required: an approver has to agree to the job first; approval_id %s, later its result "
            "is under /jobs/%s",
            approval->id, approval->id);
        request_refuse_err(request, &err, 0);
        return;
    }
    snprintf(location, sizeof location, "/approvals/%s", approval->id);
    approval_write_required(approval, &body);
    request_reply_accepted(request, location, &body);
}

static void set_timer(struct front_approvals *approvals)
{
    uint64_t soonest = UINT64_MAX;
    for (const struct approval_pending *pending = approvals->first; pending; pending = pending->next) {
        if (pending->kind == PENDING_DECISION && pending->until_ns < soonest) {
            soonest = pending->until_ns;
        }
    }
    loop_timer_set(approvals->timer, soonest == UINT64_MAX ? 0 : soonest);
}

/* Answers those who have waited until then. */
static void stop_waiting(struct front_approvals *approvals, uint64_t until_ns)
{
    for (struct approval_pending *pending = approvals->first, *next; pending; pending = next) {
        next = pending->next;
        if (pending->kind == PENDING_DECISION && pending->until_ns <= until_ns) {
            struct request *request = pending->request;
            struct approval approval = pending->approval;
            unlink_pending(approvals, pending);
            pending_free(pending);
            reply_required(request, &approval);
        }
    }
    set_timer(approvals);
}

static void on_timer(void *arg, uint32_t events)
{
    (void)events;
    stop_waiting(arg, clock_now_ns());
}

void front_approvals_stop_waiting(struct front_approvals *approvals)
{
    stop_waiting(approvals, UINT64_MAX);
}

static struct approval_pending *find_waiting(const struct front_approvals *approvals, const char *approval_id)
{
    struct approval_pending *pending = approvals->first;
    while (pending && (pending->kind != PENDING_DECISION || strcmp(pending->approval.id, approval_id) != 0)) {
        pending = pending->next;
    }
    return pending;
}

void front_approvals_changed(struct front_approvals *approvals, const struct msg_approval_changed *changed)
{
    struct approval_pending *pending = find_waiting(approvals, changed->approval_id);
    if (!pending) {
        return;
    }
    pending->approval.state = changed->state;
    if (changed->state == APPROVAL_PENDING || changed->state == APPROVAL_APPROVED ||
        changed->state == APPROVAL_RUNNING) {
        return;
    }
    struct request *request = pending->request;
    char text[APPROVAL_REASON_BYTES + 64];
    snprintf(text, sizeof text, "the job was %s%s%s",
             changed->state == APPROVAL_EXPIRED ? "not decided about in time"
                                                : approval_state_to_string(changed->state),
             changed->reason[0] ? ": " : "", changed->reason);
    unlink_pending(approvals, pending);
    pending_free(pending);
    set_timer(approvals);
    request_refuse(request, changed->state == APPROVAL_EXPIRED ? ERROR_EXPIRED : ERROR_REJECTED, text, NULL);
}

/* ---- Submitting ---- */

bool front_approvals_holds(const struct front_approvals *approvals, const struct execute_request *execute)
{
    const char *policy = execute->job->policy ? execute->job->policy : execute->runtime->policy;
    for (size_t i = 0; i < approvals->n_held; i++) {
        if (strcmp(approvals->held[i], policy) == 0) {
            return !execute->door->evaluator; /* which only its door understands: the warden refuses it */
        }
    }
    return false;
}

/* Its job was to run and has not begun. */
static void resume(struct dispatch_waiting *waiting, struct request *request)
{
    struct approval_pending *pending = CONTAINER_OF(waiting, struct approval_pending, waiting);
    if (!request) {
        pending_free(pending);
        return;
    }
    struct front_approvals *approvals = request->front->approvals;
    if (is_leaving(approvals->front)) {
        reply_required(request, &pending->approval);
        pending_free(pending);
        return;
    }
    pending->next = approvals->first;
    approvals->first = pending;
    pending->request = request;
    request->approval = pending;
    set_timer(approvals);
}

static struct approval_pending *pending_new(struct request *request, enum pending_kind kind)
{
    struct front_approvals *approvals = request->front->approvals;
    struct approval_pending *pending = calloc(1, sizeof *pending);
    if (pending) {
        *pending = (struct approval_pending){.waiting = {resume},
                                             .next = approvals->first,
                                             .request = request,
                                             .kind = kind,
                                             .id = ++approvals->last_id,
                                             .execute = EXECUTE_REQUEST_INIT};
        approvals->first = pending;
        request->approval = pending;
    }
    return pending;
}

/* Its job is with the warden now. */
static void leave(struct front_approvals *approvals, struct approval_pending *pending)
{
    unlink_pending(approvals, pending);
    pending->request->approval = NULL;
    pending->request = NULL;
    set_timer(approvals);
}

static void drop(struct front_approvals *approvals, struct approval_pending *pending)
{
    unlink_pending(approvals, pending);
    pending_free(pending);
}

int front_approvals_submit(struct request *request, struct execute_request *execute, enum dispatch_way way,
                           uint64_t *ret_retry_after_ms, struct err *reterr)
{
    struct front_approvals *approvals = request->front->approvals;
    CLEANUP(fd_closep) int fd = -1;
    *ret_retry_after_ms = 0;
    if (execute->queue_ms == QUEUE_MS_DEFAULT) {
        execute->queue_ms = request->front->config->mcp_queue_ms;
    }
    int r =
        dispatch_check(request->front->dispatch, &request->caller, execute->job, ret_retry_after_ms, reterr);
    r = r < 0 ? r : submitted_pack(request, execute, &fd, reterr);
    if (r < 0) {
        return r;
    }
    struct approval_pending *pending = pending_new(request, PENDING_SUBMIT);
    if (!pending) {
        return err_errno(reterr, ENOMEM, "submitting a job for approval");
    }
    const struct msg msg = {.type = MSG_SUBMIT, .submit = {.id = pending->id}};
    r = channel_send(approvals->channel, &msg, &fd, 1, reterr);
    if (r < 0) {
        drop(approvals, pending);
        return r;
    }
    pending->way = way;
    pending->execute = *execute;
    *execute = EXECUTE_REQUEST_INIT;
    return 0;
}

static int start_at_once(struct request *request, struct execute_request *execute, enum dispatch_way way,
                         uint64_t *ret_retry_after_ms, struct err *reterr)
{
    int r = dispatch_start(request->front->dispatch, request, execute, way, ret_retry_after_ms, reterr);
    return r < 0 ? r : dispatch_heed_termination(request);
}

int front_approvals_start(struct request *request, struct execute_request *execute, enum dispatch_way way,
                          uint64_t *ret_retry_after_ms, struct err *reterr)
{
    if (request_check_session(request, execute->job->session_id, reterr) < 0) {
        return -EINVAL;
    }
    return front_approvals_holds(request->front->approvals, execute)
               ? front_approvals_submit(request, execute, way, ret_retry_after_ms, reterr)
               : start_at_once(request, execute, way, ret_retry_after_ms, reterr);
}

int front_approvals_ask(struct request *request, const struct msg_approval_query *query, struct err *reterr)
{
    struct front_approvals *approvals = request->front->approvals;
    struct msg msg = {.type = MSG_APPROVAL_QUERY, .approval_query = *query};
    const char *key = request->shown_key ? request->shown_key : "";
    if (strlen(key) >= sizeof msg.approval_query.key) {
        return err_set(reterr, ERR_DENIED, EPERM, NULL, "this key is no approver");
    }
    struct approval_pending *pending =
        pending_new(request, query->what == APPROVAL_LIST ? PENDING_LIST : PENDING_ONE);
    if (!pending) {
        return err_errno(reterr, ENOMEM, "asking about approvals");
    }
    msg.approval_query.id = pending->id;
    memcpy(msg.approval_query.key, key, strlen(key) + 1);
    int r = channel_send(approvals->channel, &msg, NULL, 0, reterr);
    explicit_bzero(msg.approval_query.key, sizeof msg.approval_query.key);
    if (r < 0) {
        drop(approvals, pending);
    }
    return r;
}

/* ---- Answers ---- */

static int read_rows(int fd, struct approval_rows *ret, struct err *reterr)
{
    CLEANUP(buf_free) struct buf data = BUF_INIT;
    int r = lseek(fd, 0, SEEK_SET) < 0 ? -errno : io_read_fd(fd, ROWS_BYTES_MAX, &data);
    if (r < 0) {
        return err_errno(reterr, -r, "reading of approvals");
    }
    return approval_rows_decode(data.data ? data.data : "", data.len, ret, reterr);
}

/* It waits, and so may its caller. */
static void begin_waiting(struct front_approvals *approvals, struct request *request,
                          const struct execute_request *execute, const struct approval *approval)
{
    uint64_t most = approvals->front->config->max_approval_wait_ms;
    uint64_t wait_ms = execute->wait_ms < most ? execute->wait_ms : most;
    dispatch_count(approvals->front->dispatch, &request->caller);
    struct approval_pending *pending = wait_ms > 0 && request->door->keeps && !is_leaving(approvals->front)
                                           ? pending_new(request, PENDING_DECISION)
                                           : NULL;
    if (!pending) {
        reply_required(request, approval);
        return;
    }
    pending->approval = *approval;
    pending->until_ns = clock_now_ns() + wait_ms * NS_PER_MS;
    set_timer(approvals);
}

/* It needs no approval: a job like any other. */
static void start_ordinary(struct request *request, struct execute_request *execute, enum dispatch_way way)
{
    struct err err = {0};
    uint64_t retry_after_ms = 0;
    if (start_at_once(request, execute, way, &retry_after_ms, &err) < 0) {
        request_refuse_err(request, &err, retry_after_ms);
    }
}

static int reply_told(struct request *request, enum pending_kind kind, const struct approval_rows *rows,
                      const int *fds, size_t n_fds, struct err *reterr)
{
    CLEANUP(submission_clear) struct submission submission = {0};
    struct buf body = BUF_INIT;
    if (kind == PENDING_LIST) {
        approval_write_list(rows, &body);
    } else {
        int r = n_fds > 1 ? submitted_read(fds[1], &submission, reterr) : 0;
        if (r < 0) {
            return r;
        }
        approval_write_one(&rows->rows[0], n_fds > 1 ? &submission : NULL, &body);
    }
    request_reply(request, 200, "application/json", &body);
    return 0;
}

/* `pending` has left the list, and the request knows nothing of it any more. */
static void answer_request(struct front_approvals *approvals, struct request *request,
                           struct approval_pending *pending, const struct msg_approval_answer *answer,
                           const int *fds, size_t n_fds)
{
    CLEANUP(approval_rows_clear) struct approval_rows rows = {0};
    struct err err = {0};
    int r = 0;
    if (answer->kind != ERR_NONE) {
        err_set(&err, answer->kind, 0, answer->item, "%s", answer->text);
        r = -EINVAL;
    } else if (!answer->not_needed) {
        r = n_fds > 0 ? read_rows(fds[0], &rows, &err) : -EPROTO;
        if (r == 0 && rows.n != 1 && pending->kind != PENDING_LIST) {
            r = err_set(&err, ERR_INTERNAL, EPROTO, NULL, "the warden's answer is about something else");
        }
    }
    if (r == 0 && answer->not_needed && pending->kind == PENDING_SUBMIT) {
        start_ordinary(request, &pending->execute, pending->way);
    } else if (r == 0 && pending->kind == PENDING_SUBMIT && rows.n == 1) {
        begin_waiting(approvals, request, &pending->execute, &rows.rows[0]);
    } else {
        r = r < 0 ? r : reply_told(request, pending->kind, &rows, fds, n_fds, &err);
        if (r < 0) {
            request_refuse_err(request, &err, 0);
        }
    }
}

int front_approvals_answered(struct front_approvals *approvals, const struct msg_approval_answer *answer,
                             const int *fds, size_t n_fds)
{
    struct approval_pending *pending = approvals->first;
    while (pending && (pending->kind == PENDING_DECISION || pending->id != answer->id)) {
        pending = pending->next;
    }
    if (!pending) {
        return -ENOENT;
    }
    struct request *request = pending->request;
    unlink_pending(approvals, pending);
    if (request) {
        request->approval = NULL;
        pending->request = NULL;
        answer_request(approvals, request, pending, answer, fds, n_fds);
    }
    pending_free(pending);
    return 0;
}

void front_approvals_forget(struct request *request)
{
    struct approval_pending *pending = request->approval;
    if (!pending) {
        return;
    }
    request->approval = NULL;
    pending->request = NULL;
    if (pending->kind == PENDING_DECISION) {
        struct front_approvals *approvals = request->front->approvals;
        drop(approvals, pending);
        set_timer(approvals);
    }
}

/* ---- Running ---- */

static int run(struct front_approvals *approvals, const char *approval_id, int fd, struct err *reterr)
{
    const struct server_config *config = approvals->front->config;
    CLEANUP(submission_clear) struct submission submission = {0};
    CLEANUP(execute_request_clear) struct execute_request execute = EXECUTE_REQUEST_INIT;
    int r = submitted_read(fd, &submission, reterr);
    r = r < 0 ? r : submitted_unpack(config, &submission, &execute, reterr);
    if (r < 0) {
        return r;
    }
    struct caller caller = {.key = server_config_key(config, execute.job->key)};
    caller.name = caller.key ? caller.key->name : "open";
    struct approval_pending *waiting = find_waiting(approvals, approval_id);
    struct request *request = waiting ? waiting->request : NULL;
    const struct dispatch_origin origin = {.caller = &caller,
                                           .request_id = submission.request_id,
                                           .traceparent = submission.traceparent,
                                           .start_ns = clock_now_ns(),
                                           .approval_id = approval_id,
                                           .waiting = waiting ? &waiting->waiting : NULL};
    r = dispatch_run(approvals->front->dispatch, request, &origin, &execute, reterr);
    if (r == 0 && waiting) {
        leave(approvals, waiting);
    }
    return r;
}

/* What fails here leaves the job approved: the warden hears nothing of it before our next pong, and hands it
 * over again. */
int front_approvals_run(struct front_approvals *approvals, const char *approval_id, int fd)
{
    struct err err = {0};
    if (run(approvals, approval_id, fd, &err) < 0) {
        log_err(approvals->front->log, LOG_ERROR, "approved_job_not_run", &err);
    }
    return 0;
}

/* ---- All of it ---- */

int front_approvals_new(struct front *front, struct channel *channel, char **held, size_t n_held,
                        struct front_approvals **ret, struct err *reterr)
{
    struct front_approvals *approvals = calloc(1, sizeof *approvals);
    if (!approvals) {
        return err_errno(reterr, ENOMEM, "making the table of approvals");
    }
    *approvals = (struct front_approvals){.front = front, .channel = channel, .held = held, .n_held = n_held};
    int r = loop_add_timer(front->loop, on_timer, approvals, &approvals->timer, reterr);
    if (r < 0) {
        free(approvals);
        return r;
    }
    *ret = approvals;
    return 0;
}

void front_approvals_free(struct front_approvals *approvals)
{
    if (!approvals) {
        return;
    }
    while (approvals->first) {
        drop(approvals, approvals->first);
    }
    for (size_t i = 0; i < approvals->n_held; i++) {
        free(approvals->held[i]);
    }
    free(approvals->held);
    loop_remove(approvals->timer);
    free(approvals);
}
