/* What the front and the warden say to each other. Each packs its own messages and holds the other's to the
 * schema, to one encoding per content and to the ranges below, so that a front that was taken over can only
 * say what the table in server/link/channel.c lets it say, and only in this form. */
#include "config/message/message.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "config/format/pool.h"
#include "config/format/wire.h"
#include "config/message/message.pb-c.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"

const char *msg_type_to_string(enum msg_type type)
{
    static const char *const names[MSG_TYPE_COUNT] = {
        [MSG_NONE] = "none",
        [MSG_CONFIG] = "config",
        [MSG_CALLERS] = "callers",
        [MSG_HELLO] = "hello",
        [MSG_JOB] = "job",
        [MSG_OUTPUTS] = "outputs",
        [MSG_CANCEL] = "cancel",
        [MSG_REFUSED] = "refused",
        [MSG_DONE] = "done",
        [MSG_STATE] = "state",
        [MSG_PING] = "ping",
        [MSG_PONG] = "pong",
        [MSG_SESSION_QUERY] = "session_query",
        [MSG_SESSION_ANSWER] = "session_answer",
        [MSG_STARTED] = "started",
        [MSG_SUBMIT] = "submit",
        [MSG_APPROVAL_QUERY] = "approval_query",
        [MSG_APPROVAL_ANSWER] = "approval_answer",
        [MSG_APPROVAL_CHANGED] = "approval_changed",
        [MSG_APPROVAL_RUN] = "approval_run",
        [MSG_RUN] = "run",
        [MSG_KEEP] = "keep",
        [MSG_KEPT_QUERY] = "kept_query",
        [MSG_KEPT_ANSWER] = "kept_answer",
    };
    return (size_t)type < MSG_TYPE_COUNT ? names[type] : "unknown";
}

/* A message of each kind, of which one is packed. */
struct outgoing {
    Immure__Msg envelope;
    Immure__MsgConfig config;
    Immure__MsgCallers callers;
    Immure__MsgHello hello;
    Immure__MsgJob job;
    Immure__MsgCancel cancel;
    Immure__MsgOutputs outputs;
    Immure__MsgRefused refused;
    Immure__MsgDone done;
    Immure__MsgState state;
    Immure__MsgPing ping;
    Immure__MsgPong pong;
    Immure__MsgSessionQuery session_query;
    Immure__MsgSessionAnswer session_answer;
    Immure__MsgStarted started;
    Immure__MsgSubmit submit;
    Immure__MsgApprovalQuery approval_query;
    Immure__MsgApprovalAnswer approval_answer;
    Immure__MsgApprovalChanged approval_changed;
    Immure__MsgApprovalRun approval_run;
    Immure__MsgRun run;
    Immure__MsgKeep keep;
    Immure__MsgKeptQuery kept_query;
    Immure__MsgKeptAnswer kept_answer;
};

static void fill_config(const struct msg *msg, struct pool *pool, struct outgoing *ret)
{
    immure__msg_config__init(&ret->config);
    ret->config.audit = msg->config.audit;
    ret->config.held_policy = msg->config.held;
    ret->config.n_held_policy = msg->config.n_held;
    ret->envelope.kind_case = IMMURE__MSG__KIND_CONFIG;
    ret->envelope.config = &ret->config;
    ret->config.n_policy = msg->config.n_policies;
    ret->config.policy = policies_to_messages(msg->config.policies, msg->config.n_policies, pool);
}

static void fill_callers(struct outgoing *ret)
{
    immure__msg_callers__init(&ret->callers);
    ret->envelope.kind_case = IMMURE__MSG__KIND_CALLERS;
    ret->envelope.callers = &ret->callers;
}

static void fill_hello(struct outgoing *ret)
{
    immure__msg_hello__init(&ret->hello);
    ret->envelope.kind_case = IMMURE__MSG__KIND_HELLO;
    ret->envelope.hello = &ret->hello;
}

static void fill_job(const struct msg *msg, struct pool *pool, struct outgoing *ret)
{
    immure__msg_job__init(&ret->job);
    job_to_message(msg->job, pool, &ret->job);
    ret->envelope.kind_case = IMMURE__MSG__KIND_JOB;
    ret->envelope.job = &ret->job;
}

/* Those of one number. */
#define FILL_NUMBER(name, NAME, number)                                                                      \
    static void fill_##name(const struct msg *msg, struct outgoing *ret)                                     \
    {                                                                                                        \
        immure__msg_##name##__init(&ret->name);                                                              \
        ret->name.number = msg->name.number;                                                                 \
        ret->envelope.kind_case = IMMURE__MSG__KIND_##NAME;                                                  \
        ret->envelope.name = &ret->name;                                                                     \
    }
FILL_NUMBER(cancel, CANCEL, id)
FILL_NUMBER(started, STARTED, id)
FILL_NUMBER(submit, SUBMIT, id)
FILL_NUMBER(ping, PING, number)
FILL_NUMBER(pong, PONG, number)
#undef FILL_NUMBER

static void fill_outputs(const struct msg *msg, struct pool *pool, struct outgoing *ret)
{
    immure__msg_outputs__init(&ret->outputs);
    outputs_to_message(&msg->outputs, pool, &ret->outputs);
    ret->envelope.kind_case = IMMURE__MSG__KIND_OUTPUTS;
    ret->envelope.outputs = &ret->outputs;
}

static void fill_refused(const struct msg *msg, struct outgoing *ret)
{
    immure__msg_refused__init(&ret->refused);
    ret->refused.id = msg->refused.id;
    ret->refused.kind = msg->refused.kind;
    ret->refused.item = wire_text(msg->refused.item);
    ret->refused.text = wire_text(msg->refused.text);
    ret->refused.retry_after_ms = msg->refused.retry_after_ms;
    ret->refused.has_no_slot = ret->refused.no_slot = msg->refused.no_slot;
    ret->envelope.kind_case = IMMURE__MSG__KIND_REFUSED;
    ret->envelope.refused = &ret->refused;
}

static void fill_done(const struct msg *msg, struct pool *pool, struct outgoing *ret)
{
    immure__msg_done__init(&ret->done);
    job_result_to_message(&msg->done, pool, &ret->done);
    ret->envelope.kind_case = IMMURE__MSG__KIND_DONE;
    ret->envelope.done = &ret->done;
}

static bool fill_warm(const struct msg_state *state, struct pool *pool, Immure__MsgState *ret)
{
    Immure__MsgWarm **pointers = pool_alloc(pool, state->n_warm, sizeof *pointers);
    Immure__MsgWarm *rows = pool_alloc(pool, state->n_warm, sizeof *rows);
    if (state->n_warm > 0 && (!pointers || !rows)) {
        return false;
    }
    for (size_t i = 0; i < state->n_warm; i++) {
        immure__msg_warm__init(&rows[i]);
        rows[i].runtime = wire_text(state->warm[i].runtime);
        rows[i].parked = state->warm[i].parked;
        rows[i].building = state->warm[i].building;
        rows[i].pss_bytes = state->warm[i].pss_bytes;
        rows[i].templates_replaced = state->warm[i].templates_replaced;
        pointers[i] = &rows[i];
    }
    ret->warm = pointers;
    ret->n_warm = state->n_warm;
    return true;
}

static bool fill_state(const struct msg *msg, struct pool *pool, struct outgoing *ret)
{
    immure__msg_state__init(&ret->state);
    ret->state.ready = msg->state.ready;
    ret->state.why = wire_text(msg->state.why);
    ret->state.draining = msg->state.draining;
    ret->state.superseded = msg->state.superseded;
    ret->state.enforced_by_cgroup = msg->state.enforced_by_cgroup;
    ret->state.degraded = wire_text(msg->state.degraded);
    ret->state.front_restarts = msg->state.front_restarts;
    ret->state.leftovers_swept = msg->state.leftovers_swept;
    ret->state.sessions = msg->state.sessions;
    ret->state.kernels = msg->state.kernels;
    ret->state.jobs_elsewhere = msg->state.jobs_elsewhere;
    ret->state.heap_bytes = msg->state.heap_bytes;
    ret->state.short_of_memory = msg->state.short_of_memory;
    ret->state.ended_for_memory = msg->state.ended_for_memory;
    ret->state.approvals_pending = msg->state.approvals_pending;
    ret->state.approvals_approved = msg->state.approvals_approved;
    ret->state.approvals_rejected = msg->state.approvals_rejected;
    ret->state.approvals_expired = msg->state.approvals_expired;
    ret->state.approvals_lost = msg->state.approvals_lost;
    ret->state.reload_refused = msg->state.reload_refused;
    ret->state.reloaded_ms = msg->state.reloaded_ms;
    ret->state.log_lines_lost = msg->state.log_lines_lost;
    ret->state.audit_lines_lost = msg->state.audit_lines_lost;
    ret->state.session_bytes = msg->state.session_bytes;
    ret->state.session_bytes_most = msg->state.session_bytes_most;
    ret->envelope.kind_case = IMMURE__MSG__KIND_STATE;
    ret->envelope.state = &ret->state;
    return fill_warm(&msg->state, pool, &ret->state);
}

static void fill_session_query(const struct msg *msg, struct outgoing *ret)
{
    immure__msg_session_query__init(&ret->session_query);
    session_query_to_message(&msg->session_query, &ret->session_query);
    ret->envelope.kind_case = IMMURE__MSG__KIND_SESSION_QUERY;
    ret->envelope.session_query = &ret->session_query;
}

static void fill_session_answer(const struct msg *msg, struct outgoing *ret)
{
    immure__msg_session_answer__init(&ret->session_answer);
    session_answer_to_message(&msg->session_answer, &ret->session_answer);
    ret->envelope.kind_case = IMMURE__MSG__KIND_SESSION_ANSWER;
    ret->envelope.session_answer = &ret->session_answer;
}

/* Those about approvals, and others without a list: each is the envelope's own member of the same name. */
#define FILL_OWN(name, NAME)                                                                                 \
    static void fill_##name(const struct msg *msg, struct outgoing *ret)                                     \
    {                                                                                                        \
        name##_to_message(&msg->name, &ret->name);                                                           \
        ret->envelope.kind_case = IMMURE__MSG__KIND_##NAME;                                                  \
        ret->envelope.name = &ret->name;                                                                     \
    }
FILL_OWN(approval_query, APPROVAL_QUERY)
FILL_OWN(approval_answer, APPROVAL_ANSWER)
FILL_OWN(approval_changed, APPROVAL_CHANGED)
FILL_OWN(approval_run, APPROVAL_RUN)
FILL_OWN(run, RUN)
FILL_OWN(keep, KEEP)
FILL_OWN(kept_query, KEPT_QUERY)
#undef FILL_OWN

static void fill_kept_answer(const struct msg *msg, struct pool *pool, struct outgoing *ret)
{
    immure__msg_kept_answer__init(&ret->kept_answer);
    kept_answer_to_message(&msg->kept_answer, pool, &ret->kept_answer);
    ret->envelope.kind_case = IMMURE__MSG__KIND_KEPT_ANSWER;
    ret->envelope.kept_answer = &ret->kept_answer;
}

static bool fill(const struct msg *msg, struct pool *pool, struct outgoing *ret)
{
    immure__msg__init(&ret->envelope);
    switch (msg->type) {
    case MSG_CONFIG:
        fill_config(msg, pool, ret);
        return true;
    case MSG_CALLERS:
        fill_callers(ret);
        return true;
    case MSG_HELLO:
        fill_hello(ret);
        return true;
    case MSG_JOB:
        fill_job(msg, pool, ret);
        return true;
    case MSG_CANCEL:
        fill_cancel(msg, ret);
        return true;
    case MSG_OUTPUTS:
        fill_outputs(msg, pool, ret);
        return true;
    case MSG_REFUSED:
        fill_refused(msg, ret);
        return true;
    case MSG_DONE:
        fill_done(msg, pool, ret);
        return true;
    case MSG_STATE:
        return fill_state(msg, pool, ret);
    case MSG_PING:
        fill_ping(msg, ret);
        return true;
    case MSG_PONG:
        fill_pong(msg, ret);
        return true;
    case MSG_STARTED:
        fill_started(msg, ret);
        return true;
    case MSG_SESSION_QUERY:
        fill_session_query(msg, ret);
        return true;
    case MSG_SESSION_ANSWER:
        fill_session_answer(msg, ret);
        return true;
    case MSG_SUBMIT:
        fill_submit(msg, ret);
        return true;
    case MSG_APPROVAL_QUERY:
        fill_approval_query(msg, ret);
        return true;
    case MSG_APPROVAL_ANSWER:
        fill_approval_answer(msg, ret);
        return true;
    case MSG_APPROVAL_CHANGED:
        fill_approval_changed(msg, ret);
        return true;
    case MSG_APPROVAL_RUN:
        fill_approval_run(msg, ret);
        return true;
    case MSG_RUN:
        fill_run(msg, ret);
        return true;
    case MSG_KEEP:
        fill_keep(msg, ret);
        return true;
    case MSG_KEPT_QUERY:
        fill_kept_query(msg, ret);
        return true;
    case MSG_KEPT_ANSWER:
        fill_kept_answer(msg, pool, ret);
        return true;
    case MSG_NONE:
    case MSG_TYPE_COUNT:
        break;
    }
    return false;
}

int msg_encode(const struct msg *msg, struct buf *ret, struct err *reterr)
{
    CLEANUP(pool_free) struct pool pool = POOL_INIT;
    struct outgoing outgoing;
    if (!fill(msg, &pool, &outgoing)) {
        return err_set(reterr, ERR_INTERNAL, EINVAL, NULL, "there is no message of type %d", (int)msg->type);
    }
    if (pool.failed) {
        return err_errno(reterr, ENOMEM, "while writing a message");
    }
    size_t size = immure__msg__get_packed_size(&outgoing.envelope);
    if (size > MSG_BYTES_MAX) {
        return err_set(
            reterr, ERR_TOO_LARGE, EMSGSIZE, msg_type_to_string(msg->type),
            "%zu bytes of names, arguments and variables are more than the %u that a message may have", size,
            MSG_BYTES_MAX);
    }
    return wire_pack(&outgoing.envelope.base, ret) < 0 ? err_errno(reterr, ENOMEM, "while writing a message")
                                                       : 0;
}

static int take_text(const char *text, char *ret, size_t size, const char *field, struct err *reterr)
{
    size_t len = strlen(text);
    if (len >= size) {
        return err_set(reterr, ERR_INVALID, EBADMSG, field, "is longer than %zu bytes", size - 1);
    }
    memcpy(ret, text, len + 1);
    return 0;
}

static int refused_from_message(const Immure__MsgRefused *message, struct msg_refused *ret,
                                struct err *reterr)
{
    if (message->kind == ERR_NONE || message->kind > ERR_UNAVAILABLE) {
        return err_set(reterr, ERR_INVALID, EBADMSG, "refused.kind", "is not a known kind of error");
    }
    ret->id = message->id;
    ret->kind = (enum err_kind)message->kind;
    ret->retry_after_ms = message->retry_after_ms;
    ret->no_slot = message->no_slot;
    int r = take_text(message->item, ret->item, sizeof ret->item, "refused.item", reterr);
    return r < 0 ? r : take_text(message->text, ret->text, sizeof ret->text, "refused.text", reterr);
}

static int warm_from_message(const Immure__MsgState *message, struct msg_state *ret, struct err *reterr)
{
    if (message->n_warm > MSG_WARM_MAX) {
        return err_set(reterr, ERR_INVALID, EBADMSG, "state.warm", "has more rows than there can be");
    }
    int r = 0;
    for (size_t i = 0; r == 0 && i < message->n_warm; i++) {
        const Immure__MsgWarm *row = message->warm[i];
        ret->warm[i] = (struct msg_warm){.parked = row->parked,
                                         .building = row->building,
                                         .pss_bytes = row->pss_bytes,
                                         .templates_replaced = row->templates_replaced};
        r = take_text(row->runtime, ret->warm[i].runtime, sizeof ret->warm[i].runtime, "state.warm.runtime",
                      reterr);
    }
    ret->n_warm = message->n_warm;
    return r;
}

static int state_from_message(const Immure__MsgState *message, struct msg_state *ret, struct err *reterr)
{
    ret->ready = message->ready;
    ret->draining = message->draining;
    ret->superseded = message->superseded;
    ret->enforced_by_cgroup = message->enforced_by_cgroup;
    ret->front_restarts = message->front_restarts;
    ret->leftovers_swept = message->leftovers_swept;
    ret->sessions = message->sessions;
    ret->kernels = message->kernels;
    ret->jobs_elsewhere = message->jobs_elsewhere;
    ret->heap_bytes = message->heap_bytes;
    ret->short_of_memory = message->short_of_memory;
    ret->ended_for_memory = message->ended_for_memory;
    ret->approvals_pending = message->approvals_pending;
    ret->approvals_approved = message->approvals_approved;
    ret->approvals_rejected = message->approvals_rejected;
    ret->approvals_expired = message->approvals_expired;
    ret->approvals_lost = message->approvals_lost;
    ret->reload_refused = message->reload_refused;
    ret->reloaded_ms = message->reloaded_ms;
    ret->log_lines_lost = message->log_lines_lost;
    ret->audit_lines_lost = message->audit_lines_lost;
    ret->session_bytes = message->session_bytes;
    ret->session_bytes_most = message->session_bytes_most;
    int r = warm_from_message(message, ret, reterr);
    r = r < 0 ? r : take_text(message->why, ret->why, sizeof ret->why, "state.why", reterr);
    return r < 0
               ? r
               : take_text(message->degraded, ret->degraded, sizeof ret->degraded, "state.degraded", reterr);
}

static void texts_free(char **texts, size_t n)
{
    for (size_t i = 0; texts && i < n; i++) {
        free(texts[i]);
    }
    free(texts);
}

static int config_from_envelope(const Immure__MsgConfig *message, struct msg *ret, struct err *reterr)
{
    ret->config.audit = message->audit;
    ret->config.held = calloc(message->n_held_policy + 1, sizeof *ret->config.held);
    for (size_t i = 0; ret->config.held && i < message->n_held_policy; i++) {
        ret->config.held[i] = strdup(message->held_policy[i]);
        if (!ret->config.held[i]) {
            texts_free(ret->config.held, i);
            ret->config.held = NULL;
        }
    }
    if (!ret->config.held) {
        return err_errno(reterr, ENOMEM, "while reading a message");
    }
    ret->config.n_held = message->n_held_policy;
    int r = policies_from_messages(message->policy, message->n_policy, &ret->config.policies, reterr);
    if (r < 0) {
        texts_free(ret->config.held, ret->config.n_held);
        return r;
    }
    ret->config.n_policies = message->n_policy;
    return 0;
}

static int from_envelope(const Immure__Msg *envelope, const int *fds, size_t n_fds, struct msg *ret,
                         struct err *reterr)
{
    switch (envelope->kind_case) {
    case IMMURE__MSG__KIND_CONFIG:
        ret->type = MSG_CONFIG;
        return config_from_envelope(envelope->config, ret, reterr);
    case IMMURE__MSG__KIND_CALLERS:
        ret->type = MSG_CALLERS;
        return 0;
    case IMMURE__MSG__KIND_HELLO:
        ret->type = MSG_HELLO;
        return 0;
    case IMMURE__MSG__KIND_JOB:
        ret->type = MSG_JOB;
        return job_from_message(envelope->job, &ret->job, reterr);
    case IMMURE__MSG__KIND_CANCEL:
        ret->type = MSG_CANCEL;
        ret->cancel.id = envelope->cancel->id;
        return 0;
    case IMMURE__MSG__KIND_OUTPUTS:
        ret->type = MSG_OUTPUTS;
        return outputs_from_message(envelope->outputs, &ret->outputs, reterr);
    case IMMURE__MSG__KIND_REFUSED:
        ret->type = MSG_REFUSED;
        return refused_from_message(envelope->refused, &ret->refused, reterr);
    case IMMURE__MSG__KIND_DONE:
        ret->type = MSG_DONE;
        return job_result_from_message(envelope->done, fds, n_fds, &ret->done, reterr);
    case IMMURE__MSG__KIND_STATE:
        ret->type = MSG_STATE;
        return state_from_message(envelope->state, &ret->state, reterr);
    case IMMURE__MSG__KIND_PING:
        ret->type = MSG_PING;
        ret->ping.number = envelope->ping->number;
        return 0;
    case IMMURE__MSG__KIND_PONG:
        ret->type = MSG_PONG;
        ret->pong.number = envelope->pong->number;
        return 0;
    case IMMURE__MSG__KIND_STARTED:
        ret->type = MSG_STARTED;
        ret->started.id = envelope->started->id;
        return 0;
    case IMMURE__MSG__KIND_SESSION_QUERY:
        ret->type = MSG_SESSION_QUERY;
        return session_query_from_message(envelope->session_query, &ret->session_query, reterr);
    case IMMURE__MSG__KIND_SESSION_ANSWER:
        ret->type = MSG_SESSION_ANSWER;
        return session_answer_from_message(envelope->session_answer, &ret->session_answer, reterr);
    case IMMURE__MSG__KIND_SUBMIT:
        ret->type = MSG_SUBMIT;
        ret->submit.id = envelope->submit->id;
        return 0;
    case IMMURE__MSG__KIND_APPROVAL_QUERY:
        ret->type = MSG_APPROVAL_QUERY;
        return approval_query_from_message(envelope->approval_query, &ret->approval_query, reterr);
    case IMMURE__MSG__KIND_APPROVAL_ANSWER:
        ret->type = MSG_APPROVAL_ANSWER;
        return approval_answer_from_message(envelope->approval_answer, &ret->approval_answer, reterr);
    case IMMURE__MSG__KIND_APPROVAL_CHANGED:
        ret->type = MSG_APPROVAL_CHANGED;
        return approval_changed_from_message(envelope->approval_changed, &ret->approval_changed, reterr);
    case IMMURE__MSG__KIND_APPROVAL_RUN:
        ret->type = MSG_APPROVAL_RUN;
        return approval_run_from_message(envelope->approval_run, &ret->approval_run, reterr);
    case IMMURE__MSG__KIND_RUN:
        ret->type = MSG_RUN;
        return run_from_message(envelope->run, &ret->run, reterr);
    case IMMURE__MSG__KIND_KEEP:
        ret->type = MSG_KEEP;
        return keep_from_message(envelope->keep, &ret->keep, reterr);
    case IMMURE__MSG__KIND_KEPT_QUERY:
        ret->type = MSG_KEPT_QUERY;
        return kept_query_from_message(envelope->kept_query, &ret->kept_query, reterr);
    case IMMURE__MSG__KIND_KEPT_ANSWER:
        ret->type = MSG_KEPT_ANSWER;
        return kept_answer_from_message(envelope->kept_answer, &ret->kept_answer, reterr);
    case IMMURE__MSG__KIND__NOT_SET:
    default:
        return err_set(reterr, ERR_INVALID, EBADMSG, "kind", "is missing");
    }
}

static void envelope_freep(Immure__Msg **envelope)
{
    immure__msg__free_unpacked(*envelope, NULL);
}

int msg_decode(const void *data, size_t size, const int *fds, size_t n_fds, struct msg *ret,
               struct err *reterr)
{
    if (size > MSG_BYTES_MAX) {
        return err_set(reterr, ERR_TOO_LARGE, EMSGSIZE, NULL, "a message of %zu bytes", size);
    }
    CLEANUP(envelope_freep) Immure__Msg *envelope = NULL;
    ProtobufCMessage *message;
    int r = wire_unpack(&immure__msg__descriptor, data, size, &message);
    if (r == -ENOMEM) {
        return err_errno(reterr, ENOMEM, "while reading a message");
    }
    if (r < 0) {
        return err_set(reterr, ERR_INVALID, EBADMSG, NULL, "%zu bytes are not a message", size);
    }
    envelope = (Immure__Msg *)message;
    struct msg msg = {.type = MSG_NONE};
    r = from_envelope(envelope, fds, n_fds, &msg, reterr);
    if (r < 0) {
        return r;
    }
    *ret = msg;
    return 0;
}

void msg_clear(struct msg *msg)
{
    if (msg->type == MSG_JOB) {
        job_free(msg->job);
    } else if (msg->type == MSG_DONE) {
        job_result_clear(&msg->done);
    } else if (msg->type == MSG_OUTPUTS) {
        msg_outputs_clear(&msg->outputs);
    } else if (msg->type == MSG_KEPT_ANSWER) {
        free(msg->kept_answer.rows);
    } else if (msg->type == MSG_CONFIG) {
        texts_free(msg->config.held, msg->config.n_held);
        msg_policies_free(msg->config.policies, msg->config.n_policies);
    }
    *msg = (struct msg){.type = MSG_NONE};
}
