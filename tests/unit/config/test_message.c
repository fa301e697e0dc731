/* config/message.c: every message survives the trip, and nothing that an encoder did not write is accepted.
 */
#include "config/message.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "config/message.pb-c.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"

static struct job *a_job(void)
{
    struct job *job = calloc(1, sizeof *job);
    assert_non_null(job);
    job->id = 7;
    job->runtime = strdup("python");
    job->execution_id = strdup("e-1");
    job->key = strdup("default");
    job->session_id = strdup("s-1");
    job->announce = true;
    job->code_size = 100;
    job->n_files = 2;
    job->files = calloc(2, sizeof *job->files);
    job->files[0] = (struct job_file){.path = strdup("data/\xff.csv"), .offset = 100, .size = 5};
    job->files[1] = (struct job_file){.path = strdup("empty"), .offset = 105, .size = 0};
    job->n_args = 2;
    job->args = calloc(2, sizeof *job->args);
    job->args[0] = strdup("");
    job->args[1] = strdup("--x");
    job->n_env = 1;
    job->env = calloc(1, sizeof *job->env);
    job->env[0] = (struct job_env){.name = strdup("LANG"), .value = strdup("")};
    job->n_outputs = 1;
    job->outputs = calloc(1, sizeof *job->outputs);
    job->outputs[0] = strdup("*.png");
    job->limits = (struct job_limits){.memory_bytes = UINT64_MAX, .timeout_ms = 1};
    return job;
}

static struct job_result a_result(void)
{
    struct job_result result = {
        .id = UINT64_MAX,
        .status = JOB_TIMEOUT,
        .exit_code = -1,
        .signal = 9,
        .killed = true,
        .setup_ns = 1,
        .duration_ns = 2,
        .has_cpu = true,
        .cpu_ns = 0,
        .has_pids_peak = true,
        .pids_peak = 3,
        .limits = {.pids = 64},
        .policy = strdup("python"),
        .policy_sha256 = strdup("00"),
        .error_text = strdup("Execution timed out after 1 seconds."),
    };
    result.n_denied = 1;
    result.denied = calloc(1, sizeof *result.denied);
    result.denied[0] = (struct job_denied){.name = strdup("mount"), .count = 3};
    result.n_files = 3;
    result.files = calloc(3, sizeof *result.files);
    result.files[0] =
        (struct job_output_file){.path = strdup("a"), .size = 1, .fd = 41, .asked = true, .written = true};
    result.files[1] = (struct job_output_file){.path = strdup("b"), .size = 2, .fd = -1, .asked = true};
    result.files[2] = (struct job_output_file){.path = strdup("c"), .size = 3, .fd = 43, .asked = true};
    return result;
}

/* The descriptors of a_result() are mere numbers; nothing may close them. */
static void forget(struct msg *msg)
{
    for (size_t i = 0; msg->type == MSG_DONE && i < msg->done.n_files; i++) {
        msg->done.files[i].fd = -1;
    }
    msg_clear(msg);
}

static void encode(const struct msg *msg, struct buf *ret)
{
    struct err err = {0};
    if (msg_encode(msg, ret, &err) != 0) {
        fail_msg("%s: %s", err.item, err.text);
    }
}

static void decode(const struct buf *buf, const int *fds, size_t n_fds, struct msg *ret)
{
    struct err err = {0};
    if (msg_decode(buf->data, buf->len, fds, n_fds, ret, &err) != 0) {
        fail_msg("%s: %s", err.item, err.text);
    }
}

static void test_job_round_trip(void **state)
{
    (void)state;
    CLEANUP(buf_free) struct buf buf = BUF_INIT;
    struct msg out = {.type = MSG_JOB, .job = a_job()}, in = {0};
    encode(&out, &buf);
    decode(&buf, NULL, 0, &in);
    assert_int_equal(in.type, MSG_JOB);
    assert_int_equal(in.job->id, 7);
    assert_string_equal(in.job->runtime, "python");
    assert_null(in.job->policy);
    assert_string_equal(in.job->execution_id, "e-1");
    assert_string_equal(in.job->key, "default");
    assert_string_equal(in.job->session_id, "s-1");
    assert_true(in.job->announce);
    assert_int_equal(in.job->code_size, 100);
    assert_int_equal(in.job->n_files, 2);
    assert_string_equal(in.job->files[0].path, "data/\xff.csv");
    assert_int_equal(in.job->files[0].offset, 100);
    assert_int_equal(in.job->files[0].size, 5);
    assert_int_equal(in.job->n_args, 2);
    assert_string_equal(in.job->args[0], "");
    assert_string_equal(in.job->args[1], "--x");
    assert_int_equal(in.job->n_env, 1);
    assert_string_equal(in.job->env[0].name, "LANG");
    assert_string_equal(in.job->env[0].value, "");
    assert_int_equal(in.job->n_outputs, 1);
    assert_string_equal(in.job->outputs[0], "*.png");
    assert_true(in.job->limits.memory_bytes == UINT64_MAX);
    assert_int_equal(in.job->limits.timeout_ms, 1);
    assert_int_equal(in.job->limits.pids, 0);
    msg_clear(&out);
    msg_clear(&in);
    assert_int_equal(in.type, MSG_NONE);
}

static void test_done_round_trip(void **state)
{
    (void)state;
    CLEANUP(buf_free) struct buf buf = BUF_INIT;
    struct msg out = {.type = MSG_DONE, .done = a_result()}, in = {0};
    const int fds[] = {51, 53};
    encode(&out, &buf);
    decode(&buf, fds, 2, &in);
    const struct job_result *done = &in.done;
    assert_true(done->id == UINT64_MAX);
    assert_int_equal(done->status, JOB_TIMEOUT);
    assert_int_equal(done->exit_code, -1);
    assert_int_equal(done->signal, 9);
    assert_true(done->killed);
    assert_false(done->oom);
    assert_true(done->has_cpu);
    assert_false(done->has_memory_peak);
    assert_int_equal(done->pids_peak, 3);
    assert_int_equal(done->limits.pids, 64);
    assert_string_equal(done->policy, "python");
    assert_null(done->step);
    assert_string_equal(done->error_text, "Execution timed out after 1 seconds.");
    assert_int_equal(done->n_denied, 1);
    assert_string_equal(done->denied[0].name, "mount");
    assert_int_equal(done->denied[0].count, 3);
    assert_int_equal(done->n_files, 3);
    assert_int_equal(done->files[0].fd, 51);
    assert_int_equal(done->files[1].fd, -1);
    assert_int_equal(done->files[2].fd, 53);
    assert_true(done->files[1].asked);
    assert_false(done->files[1].written);
    assert_true(done->files[0].written);
    forget(&out);
    forget(&in);
}

static void test_small_messages_round_trip(void **state)
{
    (void)state;
    static const struct msg messages[] = {
        {.type = MSG_CONFIG, .config = {.audit = true}},
        {.type = MSG_CONFIG, .config = {.audit = false}},
        {.type = MSG_HELLO},
        {.type = MSG_CANCEL, .cancel = {.id = 9}},
        {.type = MSG_PING, .ping = {.number = 7}},
        {.type = MSG_PONG, .pong = {.number = UINT64_MAX}},
        {.type = MSG_REFUSED,
         .refused = {.id = 1, .kind = ERR_BUSY, .item = "", .text = "server busy", .retry_after_ms = 12}},
        {.type = MSG_STATE,
         .state = {.ready = false, .why = "step 7", .front_restarts = 2, .leftovers_swept = 1}},
        {.type = MSG_STATE,
         .state = {.ready = true,
                   .draining = true,
                   .superseded = true,
                   .degraded = "no memory controller",
                   .sessions = 3}},
        {.type = MSG_STARTED, .started = {.id = 9}},
        {.type = MSG_SESSION_QUERY, .session_query = {.id = 4, .what = SESSION_LIST, .key = "default"}},
        {.type = MSG_SESSION_QUERY,
         .session_query = {.id = 5, .what = SESSION_DELETE, .key = "open", .session_id = "s-1"}},
        {.type = MSG_SESSION_ANSWER, .session_answer = {.id = 4}},
        {.type = MSG_SESSION_ANSWER,
         .session_answer = {.id = 5, .kind = ERR_DENIED, .text = "another key's"}},
    };
    for (size_t i = 0; i < ARRAY_SIZE(messages); i++) {
        CLEANUP(buf_free) struct buf buf = BUF_INIT, again = BUF_INIT;
        struct msg in = {0};
        encode(&messages[i], &buf);
        decode(&buf, NULL, 0, &in);
        assert_int_equal(in.type, messages[i].type);
        encode(&in, &again);
        assert_int_equal(buf.len, again.len);
        assert_memory_equal(buf.data, again.data, buf.len);
        if (in.type == MSG_REFUSED) {
            assert_int_equal(in.refused.kind, ERR_BUSY);
            assert_string_equal(in.refused.text, "server busy");
            assert_int_equal(in.refused.retry_after_ms, 12);
        }
        msg_clear(&in);
    }
}

static void test_session_rows_round_trip(void **state)
{
    (void)state;
    CLEANUP(buf_free) struct buf buf = BUF_INIT;
    struct session_row rows[MSG_SESSIONS_MAX] = {
        {.session_id = "a",
         .created_ms = 1,
         .used_ms = 2,
         .expires_ms = 3,
         .bytes = 4,
         .files = 5,
         .jobs = 6},
    };
    /* As many as there can be, with the longest names. */
    for (size_t i = 1; i < ARRAY_SIZE(rows); i++) {
        memset(rows[i].session_id, 'n', SESSION_ID_BYTES - 1);
        rows[i].created_ms = rows[i].used_ms = rows[i].expires_ms = UINT64_C(1) << 48;
        rows[i].bytes = rows[i].files = UINT64_C(1) << 48;
        rows[i].jobs = UINT32_MAX;
    }
    const struct msg out = {.type = MSG_SESSION_ANSWER,
                            .session_answer = {.id = 9, .rows = rows, .n_rows = ARRAY_SIZE(rows)}};
    struct msg in = {0};
    encode(&out, &buf);
    decode(&buf, NULL, 0, &in);
    assert_int_equal(in.session_answer.id, 9);
    assert_int_equal(in.session_answer.kind, ERR_NONE);
    assert_int_equal(in.session_answer.n_rows, ARRAY_SIZE(rows));
    assert_memory_equal(in.session_answer.rows, rows, sizeof rows);
    msg_clear(&in);
}

static void test_descriptors_must_match(void **state)
{
    (void)state;
    CLEANUP(buf_free) struct buf buf = BUF_INIT;
    struct msg out = {.type = MSG_DONE, .done = a_result()}, in = {0};
    const int fds[] = {51, 53, 55};
    encode(&out, &buf);
    for (size_t n = 0; n <= 3; n++) {
        struct err err = {0};
        if (n == 2) {
            continue;
        }
        assert_int_equal(msg_decode(buf.data, buf.len, fds, n, &in, &err), -EBADMSG);
        assert_string_equal(err.item, "done.file.attached");
        assert_int_equal(in.type, MSG_NONE);
    }
    forget(&out);
}

static void test_too_large(void **state)
{
    (void)state;
    CLEANUP(buf_free) struct buf buf = BUF_INIT;
    struct msg out = {.type = MSG_JOB, .job = a_job()}, in = {0};
    struct err err = {0};
    free(out.job->args[1]);
    out.job->args[1] = malloc(MSG_BYTES_MAX + 1);
    memset(out.job->args[1], 'x', MSG_BYTES_MAX);
    out.job->args[1][MSG_BYTES_MAX] = '\0';
    assert_int_equal(msg_encode(&out, &buf, &err), -EMSGSIZE);
    assert_int_equal(err.kind, ERR_TOO_LARGE);
    assert_int_equal(buf.len, 0);
    err_clear(&err);
    assert_int_equal(msg_decode(out.job->args[1], MSG_BYTES_MAX + 1, NULL, 0, &in, &err), -EMSGSIZE);
    assert_int_equal(err.kind, ERR_TOO_LARGE);
    msg_clear(&out);
}

/* What a hostile peer could pack with a protobuf library of its own. */
struct hostile {
    Immure__Msg envelope;
    Immure__MsgJob job;
    Immure__MsgFile file;
    Immure__MsgFile *files[1];
    Immure__MsgEnv env;
    Immure__MsgEnv *envs[1];
    ProtobufCBinaryData text;
    Immure__MsgLimits limits;
    Immure__MsgDone done;
    Immure__MsgRefused refused;
    Immure__MsgSessionQuery query;
    Immure__MsgSessionAnswer answer;
    Immure__MsgSession row;
    Immure__MsgSession *rows[1];
};

static ProtobufCBinaryData bytes(const char *data, size_t len)
{
    return (ProtobufCBinaryData){.len = len, .data = (uint8_t *)(uintptr_t)data};
}

static void hostile_job(struct hostile *h)
{
    static char text[] = "x";
    immure__msg__init(&h->envelope);
    immure__msg_job__init(&h->job);
    immure__msg_limits__init(&h->limits);
    immure__msg_file__init(&h->file);
    immure__msg_env__init(&h->env);
    h->envelope.kind_case = IMMURE__MSG__KIND_JOB;
    h->envelope.job = &h->job;
    h->job.runtime = h->job.execution_id = h->job.key = text;
    h->job.limits = &h->limits;
    h->job.file = h->files;
    h->files[0] = &h->file;
    h->file.path = bytes("f", 1);
    h->job.env = h->envs;
    h->envs[0] = &h->env;
    h->env.name = bytes("N", 1);
}

static void hostile_done(struct hostile *h)
{
    static char text[] = "x";
    immure__msg__init(&h->envelope);
    immure__msg_done__init(&h->done);
    immure__msg_limits__init(&h->limits);
    h->envelope.kind_case = IMMURE__MSG__KIND_DONE;
    h->envelope.done = &h->done;
    h->done.limits = &h->limits;
    h->done.policy = h->done.policy_sha256 = text;
}

/* Expects -EBADMSG naming `item`; NULL: expects success. */
static void offer(const struct hostile *h, const char *item)
{
    static uint8_t packed[8192];
    struct err err = {0};
    struct msg in = {0};
    size_t size = immure__msg__get_packed_size(&h->envelope);
    assert_true(size <= sizeof packed);
    immure__msg__pack(&h->envelope, packed);
    int r = msg_decode(packed, size, NULL, 0, &in, &err);
    if (!item) {
        assert_int_equal(r, 0);
        msg_clear(&in);
        return;
    }
    assert_int_equal(r, -EBADMSG);
    assert_int_equal(err.kind, ERR_INVALID);
    assert_string_equal(err.item, item);
    assert_int_equal(in.type, MSG_NONE);
}

static void test_hostile_session_queries(void **state)
{
    (void)state;
    static char key[66], name[] = "s", no_name[] = "../s";
    struct hostile h = {0};
    immure__msg__init(&h.envelope);
    immure__msg_session_query__init(&h.query);
    h.envelope.kind_case = IMMURE__MSG__KIND_SESSION_QUERY;
    h.envelope.session_query = &h.query;
    h.query.key = key;
    h.query.what = SESSION_LIST;
    offer(&h, NULL);
    h.query.session_id = name;
    offer(&h, "session_query.session_id");
    h.query.what = SESSION_DELETE;
    offer(&h, NULL);
    h.query.session_id = no_name;
    offer(&h, "session_query.session_id");
    h.query.session_id = NULL;
    offer(&h, "session_query.session_id");
    h.query.what = SESSION_QUERY_COUNT;
    offer(&h, "session_query.what");
    h.query.what = SESSION_LIST;
    memset(key, 'k', sizeof key - 1);
    offer(&h, "session_query.key");
}

static void test_hostile_session_answers(void **state)
{
    (void)state;
    static char text[513], name[] = "s", no_name[] = "";
    struct hostile h = {0};
    immure__msg__init(&h.envelope);
    immure__msg_session_answer__init(&h.answer);
    immure__msg_session__init(&h.row);
    h.envelope.kind_case = IMMURE__MSG__KIND_SESSION_ANSWER;
    h.envelope.session_answer = &h.answer;
    h.answer.session = h.rows;
    h.answer.n_session = 1;
    h.rows[0] = &h.row;
    h.row.session_id = name;
    offer(&h, NULL);
    h.row.has_expires_ms = true;
    offer(&h, "session_answer.session.expires_ms");
    h.row.expires_ms = 1;
    offer(&h, NULL);
    h.row.session_id = no_name;
    offer(&h, "session_answer.session.session_id");
    h.answer.text = text;
    offer(&h, "session_answer.text");
    h.answer.has_kind = true;
    offer(&h, "session_answer.text"); /* a refusal with rows */
    h.answer.n_session = 0;
    offer(&h, "session_answer.kind");
    h.answer.kind = ERR_DENIED;
    offer(&h, NULL);
    h.answer.kind = ERR_UNAVAILABLE + 1;
    offer(&h, "session_answer.kind");
    h.answer.kind = ERR_DENIED;
    memset(text, 'x', sizeof text - 1);
    offer(&h, "session_answer.text");
    h.answer.text = NULL;
    offer(&h, "session_answer.text");
}

static void test_hostile_jobs(void **state)
{
    (void)state;
    struct hostile h = {0};
    hostile_job(&h);
    h.job.n_file = h.job.n_env = 1;
    offer(&h, NULL);
    h.limits.has_pids = true;
    offer(&h, "limits.pids");
    h.limits.has_pids = false;
    static char no_session[] = "a/b";
    h.job.session_id = no_session;
    offer(&h, "job.session_id");
    h.job.session_id = NULL;
    h.file.path = bytes("", 0);
    offer(&h, "job.file.path");
    h.file.path = bytes("a\0b", 3);
    offer(&h, "job.file.path");
    h.file.path = bytes("a", 1);
    h.file.offset = UINT64_MAX;
    h.file.size = 1;
    offer(&h, "job.file.offset");
    h.file.offset = INT64_MAX;
    offer(&h, "job.file.offset");
    h.file.offset = 9;
    h.job.code_size = 10;
    offer(&h, "job.file.offset");
    h.job.code_size = UINT64_MAX;
    offer(&h, "job.code_size");
    h.job.code_size = 0;
    h.env.name = bytes("", 0);
    offer(&h, "job.env.name");
    h.env.name = bytes("A=B", 3);
    offer(&h, "job.env.name");
    h.env.name = bytes("A\0B", 3);
    offer(&h, "job.env.name");
    h.env.name = bytes("A", 1);
    h.env.value = bytes("\0", 1);
    offer(&h, "job.env.value");
    h.env.value = bytes("", 0);
    h.text = bytes("\0", 1);
    h.job.arg = &h.text;
    h.job.n_arg = 1;
    offer(&h, "job.arg");
    h.job.n_arg = 0;
    h.job.output = &h.text;
    h.job.n_output = 1;
    offer(&h, "job.output");
    h.job.n_output = 0;
    offer(&h, NULL);
}

static void test_hostile_results(void **state)
{
    (void)state;
    struct hostile h = {0};
    hostile_done(&h);
    offer(&h, NULL);
    h.done.status = JOB_STATUS_COUNT;
    offer(&h, "done.status");
    h.done.status = UINT32_MAX;
    offer(&h, "done.status");
    h.done.status = 0;
    h.done.signal = 65;
    offer(&h, "done.signal");
    h.done.signal = 64;
    h.done.exit_code = 256;
    offer(&h, "done.exit_code");
    h.done.exit_code = -2;
    offer(&h, "done.exit_code");
    h.done.exit_code = 255;
    offer(&h, NULL);
}

static void test_hostile_refusals(void **state)
{
    (void)state;
    char text[600];
    struct hostile h = {0};
    memset(text, 'x', sizeof text);
    text[511] = '\0';
    immure__msg__init(&h.envelope);
    immure__msg_refused__init(&h.refused);
    h.envelope.kind_case = IMMURE__MSG__KIND_REFUSED;
    h.envelope.refused = &h.refused;
    h.refused.item = text + 511;
    h.refused.text = text;
    offer(&h, "refused.kind");
    h.refused.kind = UINT32_MAX;
    offer(&h, "refused.kind");
    h.refused.kind = ERR_BUSY;
    offer(&h, NULL);
    h.refused.item = text;
    offer(&h, "refused.item");
    text[511] = 'x';
    text[512] = '\0';
    h.refused.item = text + 512;
    offer(&h, "refused.text");
}

static void expect_refused(const void *data, size_t size)
{
    struct err err = {0};
    struct msg in = {0};
    assert_int_equal(msg_decode(data, size, NULL, 0, &in, &err), -EBADMSG);
    assert_int_equal(in.type, MSG_NONE);
}

static void test_hostile_bytes(void **state)
{
    (void)state;
#define REFUSED(bytes) expect_refused(bytes, sizeof bytes - 1)
    REFUSED("");                                 /* no kind at all */
    REFUSED("\x0a\x00");                         /* a config without its required field */
    REFUSED("\x0a\x02\x08\x02");                 /* a bool that is 2 */
    REFUSED("\x0a\x03\x08\x81\x00");             /* a number longer than needed */
    REFUSED("\x0a\x02\x08\x01\x12\x00");         /* two kinds */
    REFUSED("\x0a\x02\x08\x01\x0a\x02\x08\x01"); /* the same kind twice */
    REFUSED("\x0a\x04\x08\x01\x10\x01");         /* an unknown field inside */
    REFUSED("\x0a\x02\x08\x01\x48\x01");         /* an unknown field outside */
    REFUSED("\x0a\x7f\x08\x01");                 /* a length past the end */
    REFUSED("\x12\x02\x08\x01");                 /* a field in an empty message */
    REFUSED("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff");
    /* "\0" in a string: refused { id 1, kind 1, item "a\0b", text "", retry 0 } */
    REFUSED("\x2a\x0d\x08\x01\x10\x01\x1a\x03\x61\x00\x62\x22\x00\x28\x00");
#undef REFUSED
}

/* Whatever the bytes, decoding ends cleanly, and what it accepts is exactly what encoding writes. */
static void test_mutations(void **state)
{
    (void)state;
    uint64_t random = 0x9e3779b97f4a7c15u;
    const int fds[] = {51, 53};
    struct msg seeds[] = {{.type = MSG_JOB, .job = a_job()}, {.type = MSG_DONE, .done = a_result()}};
    size_t accepted = 0;
    for (size_t s = 0; s < ARRAY_SIZE(seeds); s++) {
        CLEANUP(buf_free) struct buf seed = BUF_INIT;
        encode(&seeds[s], &seed);
        for (int i = 0; i < 20000; i++) {
            CLEANUP(buf_free) struct buf bytes = BUF_INIT, again = BUF_INIT;
            struct msg in = {0};
            buf_append(&bytes, seed.data, seed.len);
            for (unsigned n = 0; n < 1 + random % 3; n++) {
                random = random * 6364136223846793005u + 1442695040888963407u;
                bytes.data[(random >> 33) % bytes.len] = (char)(random >> 20);
            }
            size_t size = random % 7 == 0 ? (random >> 40) % bytes.len : bytes.len;
            if (msg_decode(bytes.data, size, fds, seeds[s].type == MSG_DONE ? 2 : 0, &in, NULL) == 0) {
                accepted++;
                encode(&in, &again);
                assert_int_equal(again.len, size);
                assert_memory_equal(again.data, bytes.data, size);
                forget(&in);
            }
        }
        forget(&seeds[s]);
    }
    assert_true(accepted > 100);
}

static void test_outputs_round_trip(void **state)
{
    (void)state;
    char a[] = "/workspace/a.png", b[] = "/workspace/\xff";
    struct msg out = {.type = MSG_OUTPUTS}, in = {0};
    out.outputs = (struct msg_outputs){.id = 7, .paths = (char *[]){a, b}, .n_paths = 2};
    CLEANUP(buf_free) struct buf bytes = BUF_INIT;
    encode(&out, &bytes);
    assert_int_equal(msg_decode(bytes.data, bytes.len, NULL, 0, &in, NULL), 0);
    assert_int_equal(in.type, MSG_OUTPUTS);
    assert_int_equal(in.outputs.id, 7);
    assert_int_equal(in.outputs.n_paths, 2);
    assert_string_equal(in.outputs.paths[0], a);
    assert_string_equal(in.outputs.paths[1], b);
    msg_clear(&in);
    bytes.data[bytes.len - 1] = '\0';
    assert_true(msg_decode(bytes.data, bytes.len, NULL, 0, &in, NULL) < 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_job_round_trip),
        cmocka_unit_test(test_done_round_trip),
        cmocka_unit_test(test_small_messages_round_trip),
        cmocka_unit_test(test_outputs_round_trip),
        cmocka_unit_test(test_descriptors_must_match),
        cmocka_unit_test(test_too_large),
        cmocka_unit_test(test_session_rows_round_trip),
        cmocka_unit_test(test_hostile_session_queries),
        cmocka_unit_test(test_hostile_session_answers),
        cmocka_unit_test(test_hostile_jobs),
        cmocka_unit_test(test_hostile_results),
        cmocka_unit_test(test_hostile_refusals),
        cmocka_unit_test(test_hostile_bytes),
        cmocka_unit_test(test_mutations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
