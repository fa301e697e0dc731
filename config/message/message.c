/* What the front and the warden say to each other. Each packs its own messages and holds the other's to the
 * schema, to one encoding per content and to the ranges below, so that a front that was taken over can only
 * say what the table in server/link/channel.c lets it say, and only in this form. */
#include "config/message/message.h"

#include <errno.h>
#include <stdalign.h>
#include <stdlib.h>

#include "config/format/pool.h"
#include "config/format/wire.h"
#include "config/message/message.pb-c.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"

#define ROW(own, ...) BIND(struct msg_config, Immure__MsgConfig, own, own, __VA_ARGS__)
static const struct bind_row config_rows[] = {
    ROW(audit),
    ROW(egress),
    BIND_SOME(BIND_TEXTS, struct msg_config, Immure__MsgConfig, held, n_held, held_policy),
    BIND_SOME(BIND_EACH, struct msg_config, Immure__MsgConfig, policies, n_policies, policy,
              .table = &policy_table, .most = MSG_POLICIES_MAX),
};
#undef ROW
static const struct bind_table config_table = {
    .name = "config", BIND_TABLE_OF(struct msg_config, immure__msg_config__descriptor, config_rows)};

static const struct bind_table callers_table = {.name = "callers",
                                                .descriptor = &immure__msg_callers__descriptor};
static const struct bind_table hello_table = {.name = "hello", .descriptor = &immure__msg_hello__descriptor};

/* Messages of one number. */
#define ONE_NUMBER(kind, Kind, type, number)                                                                 \
    static const struct bind_row kind##_rows[] = {BIND(struct type, Immure__Msg##Kind, number, number)};     \
    static const struct bind_table kind##_table = {                                                          \
        .name = #kind, BIND_TABLE_OF(struct type, immure__msg_##kind##__descriptor, kind##_rows)};
ONE_NUMBER(cancel, Cancel, msg_id, id)
ONE_NUMBER(started, Started, msg_id, id)
ONE_NUMBER(submit, Submit, msg_id, id)
ONE_NUMBER(ping, Ping, msg_number, number)
ONE_NUMBER(pong, Pong, msg_number, number)
#undef ONE_NUMBER

#define ROW(own, ...) BIND(struct msg_refused, Immure__MsgRefused, own, own, __VA_ARGS__)
static const struct bind_row refused_rows[] = {
    ROW(id),
    ROW(kind, .least = ERR_NONE + 1, .most = ERR_UNAVAILABLE, .why = "is not a known kind of error"),
    ROW(item),
    ROW(text),
    ROW(retry_after_ms),
    ROW(no_slot),
};
#undef ROW
static const struct bind_table refused_table = {
    .name = "refused", BIND_TABLE_OF(struct msg_refused, immure__msg_refused__descriptor, refused_rows)};

#define ROW(own, ...) BIND(struct msg_warm, Immure__MsgWarm, own, own, __VA_ARGS__)
static const struct bind_row warm_rows[] = {ROW(runtime),   ROW(parked),    ROW(building),
                                            ROW(in_images), ROW(pss_bytes), ROW(templates_replaced)};
#undef ROW
static const struct bind_table warm_table = {
    .name = "state.warm", BIND_TABLE_OF(struct msg_warm, immure__msg_warm__descriptor, warm_rows)};

#define ROW(own, ...) BIND(struct msg_failing, Immure__MsgFailing, own, own, __VA_ARGS__)
static const struct bind_row failing_rows[] = {ROW(runtime), ROW(why)};
#undef ROW
static const struct bind_table failing_table = {
    .name = "state.failing",
    BIND_TABLE_OF(struct msg_failing, immure__msg_failing__descriptor, failing_rows)};

#define ROW(own, ...) BIND(struct msg_state, Immure__MsgState, own, own, __VA_ARGS__)
static const struct bind_row state_rows[] = {
    ROW(ready),
    ROW(why),
    ROW(draining),
    ROW(begins_nothing),
    ROW(enforced_by_cgroup),
    ROW(degraded),
    ROW(front_restarts),
    ROW(leftovers_swept),
    ROW(superseded),
    BIND_SOME(BIND_EACH_ROOM, struct msg_state, Immure__MsgState, warm, n_warm, warm, .table = &warm_table),
    BIND_SOME(BIND_EACH_ROOM, struct msg_state, Immure__MsgState, failing, n_failing, failing,
              .table = &failing_table),
    ROW(sessions),
    ROW(kernels),
    ROW(jobs_elsewhere),
    ROW(heap_bytes),
    ROW(short_of_memory),
    ROW(ended_for_memory),
    ROW(approvals_pending),
    ROW(approvals_approved),
    ROW(approvals_rejected),
    ROW(approvals_expired),
    ROW(approvals_lost),
    ROW(reload_refused),
    ROW(reloaded_ms),
    ROW(log_lines_lost),
    ROW(audit_lines_lost),
    ROW(audit_stopped),
    ROW(session_bytes),
    ROW(session_bytes_most),
};
#undef ROW
static const struct bind_table state_table = {
    .name = "state", BIND_TABLE_OF(struct msg_state, immure__msg_state__descriptor, state_rows)};

#define ROW(own, ...) BIND(struct msg_egress, Immure__MsgEgress, own, own, __VA_ARGS__)
static const struct bind_row egress_rows[] = {ROW(id), ROW(policy, .least = 1)};
#undef ROW
static const struct bind_table egress_table = {
    .name = "egress", BIND_TABLE_OF(struct msg_egress, immure__msg_egress__descriptor, egress_rows)};

/* On the stack for one message: most need no more. */
#define USUAL_BYTES 8192

static const struct kind {
    const char *name;
    Immure__Msg__KindCase field;
    const struct bind_table *table; /* of the union's member, but for a job's that of what it points to */
} kinds[MSG_TYPE_COUNT] = {
    [MSG_NONE] = {.name = "none"},
    [MSG_CONFIG] = {"config", IMMURE__MSG__KIND_CONFIG, &config_table},
    [MSG_CALLERS] = {"callers", IMMURE__MSG__KIND_CALLERS, &callers_table},
    [MSG_HELLO] = {"hello", IMMURE__MSG__KIND_HELLO, &hello_table},
    [MSG_JOB] = {"job", IMMURE__MSG__KIND_JOB, &job_table},
    [MSG_OUTPUTS] = {"outputs", IMMURE__MSG__KIND_OUTPUTS, &outputs_table},
    [MSG_CANCEL] = {"cancel", IMMURE__MSG__KIND_CANCEL, &cancel_table},
    [MSG_REFUSED] = {"refused", IMMURE__MSG__KIND_REFUSED, &refused_table},
    [MSG_DONE] = {"done", IMMURE__MSG__KIND_DONE, &job_result_table},
    [MSG_STATE] = {"state", IMMURE__MSG__KIND_STATE, &state_table},
    [MSG_PING] = {"ping", IMMURE__MSG__KIND_PING, &ping_table},
    [MSG_PONG] = {"pong", IMMURE__MSG__KIND_PONG, &pong_table},
    [MSG_SESSION_QUERY] = {"session_query", IMMURE__MSG__KIND_SESSION_QUERY, &session_query_table},
    [MSG_SESSION_ANSWER] = {"session_answer", IMMURE__MSG__KIND_SESSION_ANSWER, &session_answer_table},
    [MSG_STARTED] = {"started", IMMURE__MSG__KIND_STARTED, &started_table},
    [MSG_SUBMIT] = {"submit", IMMURE__MSG__KIND_SUBMIT, &submit_table},
    [MSG_APPROVAL_QUERY] = {"approval_query", IMMURE__MSG__KIND_APPROVAL_QUERY, &approval_query_table},
    [MSG_APPROVAL_ANSWER] = {"approval_answer", IMMURE__MSG__KIND_APPROVAL_ANSWER, &approval_answer_table},
    [MSG_APPROVAL_CHANGED] = {"approval_changed", IMMURE__MSG__KIND_APPROVAL_CHANGED,
                              &approval_changed_table},
    [MSG_APPROVAL_RUN] = {"approval_run", IMMURE__MSG__KIND_APPROVAL_RUN, &approval_run_table},
    [MSG_RUN] = {"run", IMMURE__MSG__KIND_RUN, &run_table},
    [MSG_KEEP] = {"keep", IMMURE__MSG__KIND_KEEP, &keep_table},
    [MSG_KEPT_QUERY] = {"kept_query", IMMURE__MSG__KIND_KEPT_QUERY, &kept_query_table},
    [MSG_KEPT_ANSWER] = {"kept_answer", IMMURE__MSG__KIND_KEPT_ANSWER, &kept_answer_table},
    [MSG_RELAY] = {"relay", IMMURE__MSG__KIND_RELAY, &relay_table},
    [MSG_RELAY_ANSWER] = {"relay_answer", IMMURE__MSG__KIND_RELAY_ANSWER, &relay_answer_table},
    [MSG_EGRESS] = {"egress", IMMURE__MSG__KIND_EGRESS, &egress_table},
};

const char *msg_type_to_string(enum msg_type type)
{
    return (size_t)type < MSG_TYPE_COUNT ? kinds[type].name : "unknown";
}

int msg_encode(const struct msg *msg, struct buf *ret, struct err *reterr)
{
    alignas(max_align_t) unsigned char usual[USUAL_BYTES];
    CLEANUP(pool_free) struct pool pool = POOL_IN(usual);
    const struct bind_table *table = (size_t)msg->type < MSG_TYPE_COUNT ? kinds[msg->type].table : NULL;
    if (!table) {
        return err_set(reterr, ERR_INTERNAL, EINVAL, NULL, "there is no message of type %d", (int)msg->type);
    }
    Immure__Msg envelope;
    immure__msg__init(&envelope);
    envelope.kind_case = kinds[msg->type].field;
    envelope.job = pool_alloc(&pool, 1, table->descriptor->sizeof_message); /* or another: it is a union */
    if (envelope.job) {
        bind_write(table, msg->type == MSG_JOB ? (const void *)msg->job : &msg->config, &pool, envelope.job);
    }
    if (pool.failed) {
        return err_errno(reterr, ENOMEM, "while writing a message");
    }
    size_t before = ret->len;
    if (wire_pack(&envelope.base, ret) < 0) {
        return err_errno(reterr, ENOMEM, "while writing a message");
    }
    size_t size = ret->len - before;
    if (size > MSG_BYTES_MAX) {
        ret->len = before;
        return err_set(
            reterr, ERR_TOO_LARGE, EMSGSIZE, msg_type_to_string(msg->type),
            "%zu bytes of names, arguments and variables are more than the %u that a message may have", size,
            MSG_BYTES_MAX);
    }
    return 0;
}

static void job_freep(struct job **job)
{
    job_free(*job);
}

static int job_from_envelope(const Immure__Msg *envelope, struct job **ret, struct err *reterr)
{
    CLEANUP(job_freep) struct job *job = malloc(sizeof *job);
    if (!job) {
        return err_errno(reterr, ENOMEM, "while reading a message");
    }
    int r = bind_read(&job_table, envelope->job, job, reterr);
    if (r == 0) {
        *ret = TAKE_PTR(job);
    }
    return r;
}

static int from_envelope(const Immure__Msg *envelope, const int *fds, size_t n_fds, struct msg *ret,
                         struct err *reterr)
{
    size_t type = MSG_NONE + 1;
    while (type < MSG_TYPE_COUNT && kinds[type].field != envelope->kind_case) {
        type++;
    }
    if (type == MSG_TYPE_COUNT) {
        return err_set(reterr, ERR_INVALID, EBADMSG, "kind", "is missing");
    }
    ret->type = (enum msg_type)type;
    if (ret->type == MSG_JOB) {
        return job_from_envelope(envelope, &ret->job, reterr);
    }
    int r = bind_read(kinds[type].table, envelope->job, &ret->config, reterr);
    if (r < 0 || ret->type != MSG_DONE) {
        return r;
    }
    r = job_result_attach(&ret->done, fds, n_fds, reterr);
    if (r < 0) {
        job_result_clear(&ret->done);
    }
    return r;
}

int msg_decode(const void *data, size_t size, const int *fds, size_t n_fds, struct msg *ret,
               struct err *reterr)
{
    if (size > MSG_BYTES_MAX) {
        return err_set(reterr, ERR_TOO_LARGE, EMSGSIZE, NULL, "a message of %zu bytes", size);
    }
    alignas(max_align_t) unsigned char usual[USUAL_BYTES];
    CLEANUP(pool_free) struct pool pool = POOL_IN(usual);
    ProtobufCMessage *message;
    int r = wire_unpack(&immure__msg__descriptor, data, size, &pool, &message);
    if (r == -ENOMEM) {
        return err_errno(reterr, ENOMEM, "while reading a message");
    }
    if (r < 0) {
        return err_set(reterr, ERR_INVALID, EBADMSG, NULL, "%zu bytes are not a message", size);
    }
    r = from_envelope((Immure__Msg *)message, fds, n_fds, ret, reterr);
    if (r < 0) {
        ret->type = MSG_NONE;
    }
    return r;
}

void msg_clear(struct msg *msg)
{
    if (msg->type == MSG_JOB) {
        job_free(TAKE_PTR(msg->job));
    } else if (msg->type != MSG_NONE) {
        bind_clear(kinds[msg->type].table, &msg->config);
    }
    msg->type = MSG_NONE;
}
