/* What the fronts say: each message to the file that handles it. Runs in the warden, on what a process says
 * that is not to be believed; whoever breaks the table of messages (server/link/channel.c) is killed. */
#include "server/warden/warden_internal.h"

#include <errno.h>
#include <string.h>

#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "jail/base/io.h"
#include "server/kit/log.h"
#include "server/link/channel.h"

/* `denials` is -1 or a descriptor to be taken. */
static void on_hello(struct front *front, int denials)
{
    struct warden *warden = front->warden;
    guard_hello(front, denials);
    if (!front_set_state(front, FRONT_SERVING)) {
        return; /* drains already */
    }
    warden->has_served = true;
    LOG(warden->log, LOG_INFO, "front_serving", LOG_FIELD_I64("pid", front->process.pid));
    if (front == warden->successor) {
        warden_reload_succeeded(warden);
    }
    warden_tell_ready(warden);
    approvals_tend(warden);
}

/* Takes the message's contents over. */
static void handle(struct front *front, struct msg *msg, int *fds, size_t n_fds)
{
    switch (msg->type) {
    case MSG_HELLO:
        on_hello(front, n_fds > 0 ? TAKE_FD(fds[0]) : -1);
        break;
    case MSG_JOB:
        job_accept(front, TAKE_PTR(msg->job), fds);
        break;
    case MSG_CANCEL:
        kept_forget(front, msg->cancel.id);
        job_cancel(front, msg->cancel.id);
        break;
    case MSG_PONG:
        guard_pong(front, msg->pong.number);
        break;
    case MSG_OUTPUTS:
        job_name_outputs(front, &msg->outputs);
        break;
    case MSG_RUN:
        job_run(front, msg->run.id, msg->run.approval_id, fds);
        break;
    case MSG_SUBMIT:
        approval_submit(front, msg->submit.id, fds[0]);
        break;
    case MSG_APPROVAL_QUERY:
        approval_query_answer(front, &msg->approval_query);
        explicit_bzero(msg->approval_query.key, sizeof msg->approval_query.key);
        break;
    case MSG_SESSION_QUERY:
        session_query_answer(front, &msg->session_query, n_fds > 0 ? fds[0] : -1);
        break;
    case MSG_KEEP:
        kept_end(front, &msg->keep, n_fds > 0 ? TAKE_FD(fds[0]) : -1);
        break;
    case MSG_KEPT_QUERY:
        kept_query_answer(front, &msg->kept_query);
        explicit_bzero(msg->kept_query.key, sizeof msg->kept_query.key);
        break;
    case MSG_RELAY:
        relay_pass(front, &msg->relay, n_fds > 0 ? fds[0] : -1);
        explicit_bzero(msg->relay.key, sizeof msg->relay.key);
        break;
    case MSG_RELAY_ANSWER:
        relay_pass_answer(front, &msg->relay_answer, n_fds > 0 ? fds[0] : -1);
        break;
    default: /* channel_recv() lets nothing else through */
        break;
    }
    for (size_t i = 0; i < n_fds; i++) {
        fd_closep(&fds[i]);
    }
    msg_clear(msg);
}

/* There was no descriptor left for what came with it. Its sender lives on, and so do the jobs of others. */
static void refuse_bare(struct front *front, struct msg *msg)
{
    struct err err = {0};
    err_set(&err, ERR_BUSY, EMFILE, NULL, "server busy: no descriptor is free");
    log_err(front->warden->log, LOG_WARNING, "job_refused", &err);
    if (msg->type == MSG_SESSION_QUERY) {
        struct msg answer = {.type = MSG_SESSION_ANSWER,
                             .session_answer = {.id = msg->session_query.id, .kind = err.kind}};
        snprintf(answer.session_answer.text, sizeof answer.session_answer.text, "%s", err.text);
        front_send(front, &answer, NULL, 0);
    } else if (msg->type == MSG_RELAY || msg->type == MSG_RELAY_ANSWER) {
        relay_refuse(front, msg);
    } else if (msg->type == MSG_KEEP) {
        kept_end(front, &msg->keep, -1);
    } else if (msg->type == MSG_SUBMIT) {
        approval_refuse(front, msg->submit.id, &err);
    } else {
        /* An approved job waits on: it is handed over again. */
        uint64_t id = msg->type == MSG_RUN ? msg->run.id : msg->job->id;
        if (front_next_job(front, id, NULL)) {
            job_refuse(front, id, &err, 0);
        }
    }
    msg_clear(msg);
}

void front_receive(struct front *front, int most)
{
    for (int i = 0; i < most && front->channel; i++) {
        struct msg msg = {.type = MSG_NONE};
        struct err err = {0};
        int fds[IO_FDS_MAX];
        size_t n_fds = ARRAY_SIZE(fds);
        int r = channel_recv(front->channel, &msg, fds, &n_fds, &err);
        if (r == 0) {
            return;
        }
        if (r == -EPIPE) {
            if (front->state == FRONT_DRAINING) {
                front_close_channel(front); /* it is exiting, as told */
            } else {
                front_kill(front, "it closed its channel");
            }
            return;
        }
        if (r < 0) {
            front_kill(front, err.text);
            return;
        }
        if (r == CHANNEL_BARE) {
            refuse_bare(front, &msg);
            continue;
        }
        handle(front, &msg, fds, n_fds);
    }
}
