/* config/message/message.c: nothing that an encoder did not write is accepted. */
#include "tests/unit/config/message/messages.h"

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
    Immure__MsgApprovalQuery approval_query;
    Immure__MsgApprovalAnswer approval_answer;
    Immure__MsgApprovalChanged approval_changed;
    Immure__MsgRun run;
    Immure__MsgSessionQuery query;
    Immure__MsgSessionAnswer answer;
    Immure__MsgKeep keep;
    Immure__MsgKeptQuery kept_query;
    Immure__MsgKeptAnswer kept_answer;
    Immure__MsgKept kept;
    Immure__MsgKept *kept_rows[1];
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

static void test_hostile_kept_jobs(void **state)
{
    (void)state;
    static char status[33], empty[] = "", id[] = "00000000-0000-4000-8000-000000000000", no_id[] = "x";
    struct hostile h = {0};
    immure__msg__init(&h.envelope);
    immure__msg_keep__init(&h.keep);
    h.envelope.kind_case = IMMURE__MSG__KIND_KEEP;
    h.envelope.keep = &h.keep;
    h.keep.status = empty;
    offer(&h, "keep.status");
    memset(status, 's', sizeof status - 1);
    h.keep.status = status;
    offer(&h, "keep.status");
    status[31] = '\0';
    offer(&h, NULL);

    immure__msg_kept_query__init(&h.kept_query);
    h.envelope.kind_case = IMMURE__MSG__KIND_KEPT_QUERY;
    h.envelope.kept_query = &h.kept_query;
    h.kept_query.key = bytes("k\0k", 3);
    offer(&h, "kept_query.key");
    h.kept_query.key = bytes("k", 1);
    offer(&h, NULL);
    h.kept_query.job_id = id;
    offer(&h, "kept_query");
    h.kept_query.what = KEPT_GET;
    offer(&h, NULL);
    h.kept_query.job_id = no_id;
    offer(&h, "kept_query.job_id");
    h.kept_query.job_id = id;
    h.kept_query.reason = empty;
    offer(&h, "kept_query");
    h.kept_query.what = KEPT_DELETE;
    offer(&h, NULL);
    h.kept_query.what = KEPT_QUERY_COUNT;
    offer(&h, "kept_query.what");

    immure__msg_kept_answer__init(&h.kept_answer);
    immure__msg_kept__init(&h.kept);
    h.envelope.kind_case = IMMURE__MSG__KIND_KEPT_ANSWER;
    h.envelope.kept_answer = &h.kept_answer;
    h.kept_rows[0] = &h.kept;
    h.kept_answer.job = h.kept_rows;
    h.kept_answer.n_job = 1;
    h.kept.job_id = id;
    h.kept.execution_id = h.kept.runtime = h.kept.status = empty;
    offer(&h, NULL);
    h.kept.job_id = no_id;
    offer(&h, "kept_answer.job.job_id");
    h.kept_answer.n_job = 0;
    h.kept_answer.text = empty;
    offer(&h, "kept_answer.text");
    h.kept_answer.has_kind = true;
    offer(&h, "kept_answer.kind");
    h.kept_answer.kind = ERR_BUSY;
    offer(&h, NULL);

    hostile_job(&h);
    h.job.kept_id = id;
    offer(&h, "job.created_ms");
    h.job.has_created_ms = true;
    offer(&h, NULL);
    h.job.kept_id = no_id;
    offer(&h, "job.kept_id");
}

static void test_hostile_session_queries(void **state)
{
    (void)state;
    static char key[66], name[] = "s", no_name[] = "a\tb", long_path[SESSION_PATH_BYTES];
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
    h.query.session_id = name;
    h.query.has_path = true;
    h.query.path = bytes("f", 1);
    offer(&h, "session_query.path");
    h.query.what = SESSION_FILE_GET;
    offer(&h, NULL);
    h.query.path = bytes("a\0b", 3);
    offer(&h, "session_query.path");
    memset(long_path, 'p', sizeof long_path);
    h.query.path = bytes(long_path, sizeof long_path);
    offer(&h, "session_query.path");
    h.query.has_path = false;
    offer(&h, "session_query.path");
    Immure__MsgSessionName others[SESSION_OTHERS_MAX + 1], *all_others[SESSION_OTHERS_MAX + 1];
    for (size_t i = 0; i < ARRAY_SIZE(others); i++) {
        immure__msg_session_name__init(&others[i]);
        others[i].session_id = name;
        all_others[i] = &others[i];
    }
    h.query.other = all_others;
    static const struct {
        uint32_t what;
        size_t least, most;
    } numbers[] = {
        {SESSION_DELETE, 0, 0}, {SESSION_FORK, 1, 16}, {SESSION_DIFF, 1, 1}, {SESSION_RESTORE, 1, 1}};
    for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
        h.query.what = numbers[i].what;
        for (size_t n = 0; n <= ARRAY_SIZE(others); n++) {
            h.query.n_other = n;
            offer(&h, n >= numbers[i].least && n <= numbers[i].most ? NULL : "session_query.other");
        }
    }
    h.query.n_other = 1;
    others[0].session_id = no_name;
    offer(&h, "session_query.other.session_id");
    h.query.n_other = 0;
    h.query.path = bytes("", 0);
    h.query.session_id = NULL;
    h.query.what = SESSION_QUERY_COUNT;
    offer(&h, "session_query.what");
    h.query.what = SESSION_LIST;
    memset(key, 'k', sizeof key - 1);
    offer(&h, "session_query.key");
}

static void test_hostile_session_answers(void **state)
{
    (void)state;
    static char text[513];
    struct hostile h = {0};
    immure__msg__init(&h.envelope);
    immure__msg_session_answer__init(&h.answer);
    h.envelope.kind_case = IMMURE__MSG__KIND_SESSION_ANSWER;
    h.envelope.session_answer = &h.answer;
    offer(&h, NULL);
    h.answer.text = text;
    offer(&h, "session_answer.text");
    h.answer.has_kind = true;
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

/* Expects the packed rows to be refused for `item`; NULL: accepted. */
static void offer_rows(const Immure__MsgSessionRows *message, const char *item)
{
    uint8_t packed[1024];
    struct err err = {0};
    struct session_rows rows = {0};
    size_t size = immure__msg_session_rows__get_packed_size(message);
    assert_true(size <= sizeof packed);
    immure__msg_session_rows__pack(message, packed);
    int r = session_rows_decode(packed, size, &rows, &err);
    assert_int_equal(r, item ? -EBADMSG : 0);
    assert_string_equal(err.item, item ? item : "");
    session_rows_clear(&rows);
}

static void test_hostile_session_rows(void **state)
{
    (void)state;
    static char name[] = "s", no_name[] = "";
    Immure__MsgSessionRows message;
    Immure__MsgSession row, *sessions[] = {&row};
    Immure__MsgSessionFile file, *files[] = {&file};
    immure__msg_session_rows__init(&message);
    immure__msg_session__init(&row);
    immure__msg_session_file__init(&file);
    message.session = sessions;
    message.n_session = 1;
    row.session_id = name;
    offer_rows(&message, NULL);
    row.has_expires_ms = true;
    offer_rows(&message, "session.expires_ms");
    row.expires_ms = 1;
    offer_rows(&message, NULL);
    row.session_id = no_name;
    offer_rows(&message, "session.session_id");
    message.n_session = 0;
    message.file = files;
    message.n_file = 1;
    offer_rows(&message, "file.path");
    file.path = bytes("a\0b", 3);
    offer_rows(&message, "file.path");
    file.path = bytes("a/b", 3);
    offer_rows(&message, NULL);
    struct err err = {0};
    assert_int_equal(session_rows_decode("\xff", 1, &(struct session_rows){0}, &err), -EBADMSG);
}

#define APPROVAL_ID "00000000-0000-4000-8000-000000000000"

static void test_hostile_approval_queries(void **state)
{
    (void)state;
    static char id[] = APPROVAL_ID, no_id[] = "../../0000-0000-4000-8000-000000000000", reason[514],
                key[4098];
    struct hostile h = {0};
    immure__msg__init(&h.envelope);
    immure__msg_approval_query__init(&h.approval_query);
    h.envelope.kind_case = IMMURE__MSG__KIND_APPROVAL_QUERY;
    h.envelope.approval_query = &h.approval_query;
    Immure__MsgApprovalQuery *query = &h.approval_query;
    query->what = APPROVAL_LIST;
    offer(&h, NULL);
    query->approval_id = id;
    offer(&h, "approval_query");
    query->what = APPROVAL_GET;
    offer(&h, NULL);
    query->approval_id = no_id;
    offer(&h, "approval_query.approval_id");
    query->approval_id = NULL;
    offer(&h, "approval_query");
    query->what = APPROVAL_DECIDE;
    query->approval_id = id;
    offer(&h, "approval_query");
    query->has_approve = true;
    offer(&h, "approval_query");
    query->reason = reason;
    offer(&h, NULL);
    memset(reason, 'r', sizeof reason - 1);
    offer(&h, "approval_query.reason");
    reason[1] = '\0';
    query->key = bytes("a\0b", 3);
    offer(&h, "approval_query.key");
    memset(key, 'k', sizeof key);
    query->key = bytes(key, sizeof key);
    offer(&h, "approval_query.key");
    query->key = bytes(key, 1);
    query->what = APPROVAL_QUERY_COUNT;
    offer(&h, "approval_query.what");
}

static void test_hostile_approval_answers(void **state)
{
    (void)state;
    static char id[] = APPROVAL_ID, text[] = "x", no_id[] = "";
    struct hostile h = {0};
    immure__msg__init(&h.envelope);
    immure__msg_approval_answer__init(&h.approval_answer);
    h.envelope.kind_case = IMMURE__MSG__KIND_APPROVAL_ANSWER;
    h.envelope.approval_answer = &h.approval_answer;
    Immure__MsgApprovalAnswer *answer = &h.approval_answer;
    offer(&h, NULL);
    answer->has_kind = true;
    answer->kind = ERR_DENIED;
    offer(&h, "approval_answer");
    answer->text = answer->item = text;
    offer(&h, NULL);
    answer->kind = ERR_UNAVAILABLE + 1;
    offer(&h, "approval_answer.kind");
    answer->kind = ERR_DENIED;
    answer->has_not_needed = answer->not_needed = true;
    offer(&h, "approval_answer");
    immure__msg_approval_changed__init(&h.approval_changed);
    h.envelope.kind_case = IMMURE__MSG__KIND_APPROVAL_CHANGED;
    h.envelope.approval_changed = &h.approval_changed;
    h.approval_changed.approval_id = id;
    h.approval_changed.reason = text;
    offer(&h, NULL);
    h.approval_changed.state = APPROVAL_STATE_COUNT;
    offer(&h, "approval_changed.state");
    immure__msg_run__init(&h.run);
    h.envelope.kind_case = IMMURE__MSG__KIND_RUN;
    h.envelope.run = &h.run;
    h.run.approval_id = no_id;
    offer(&h, "run.approval_id");
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
    static char no_session[] = "a\x7f";
    h.job.session_id = no_session;
    offer(&h, "job.session_id");
    h.job.session_id = NULL;
    h.job.has_session_kept = h.job.session_kept = true; /* of no session */
    offer(&h, "job.session_kept");
    h.job.has_session_kept = false;
    static char no_image[] = "../x", own_image[] = "";
    h.job.image = no_image;
    offer(&h, "job.image");
    h.job.image = own_image;
    offer(&h, NULL);
    h.job.image = NULL;
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
    h.done.has_session = true;
    h.done.session = JOB_SESSION_NONE;
    offer(&h, "done.session");
    h.done.session = JOB_SESSION_COUNT;
    offer(&h, "done.session");
    h.done.session = JOB_SESSION_KEPT;
    offer(&h, NULL);
    h.done.has_kernel = true;
    h.done.kernel = JOB_KERNEL_NONE; /* is said by leaving it out */
    offer(&h, "done.kernel");
    h.done.kernel = JOB_KERNEL_COUNT;
    offer(&h, "done.kernel");
    h.done.kernel = JOB_KERNEL_ENDED;
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hostile_approval_queries),
        cmocka_unit_test(test_hostile_approval_answers),
        cmocka_unit_test(test_hostile_kept_jobs),
        cmocka_unit_test(test_hostile_session_queries),
        cmocka_unit_test(test_hostile_session_answers),
        cmocka_unit_test(test_hostile_session_rows),
        cmocka_unit_test(test_hostile_jobs),
        cmocka_unit_test(test_hostile_results),
        cmocka_unit_test(test_hostile_refusals),
        cmocka_unit_test(test_hostile_bytes),
        cmocka_unit_test(test_mutations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
