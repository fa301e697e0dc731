/* config/message/message.c: every message survives the trip. */
#include "tests/unit/config/message/messages.h"

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
    assert_true(in.job->session_kept);
    assert_true(in.job->results);
    assert_string_equal(in.job->image, "debian");
    assert_true(in.job->announce);
    assert_int_equal(in.job->early_ms, 100);
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
    assert_int_equal(done->kernel, JOB_KERNEL_KEPT);
    assert_int_equal(done->session, JOB_SESSION_NEW);
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
    assert_int_equal(done->denied[0].n_calls, 1);
    assert_string_equal(done->denied[0].calls[0].call, "mount()");
    assert_int_equal(done->denied[0].calls[0].count, 2);
    assert_string_equal(done->hint, "denied");
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

#define APPROVAL_ID "00000000-0000-4000-8000-000000000000"

static void test_small_messages_round_trip(void **state)
{
    (void)state;
    static char held[] = "held", *policies[] = {held};
    static const struct msg messages[] = {
        {.type = MSG_CONFIG, .config = {.audit = true, .held = policies, .n_held = 1}},
        {.type = MSG_SUBMIT, .submit = {.id = 3}},
        {.type = MSG_APPROVAL_QUERY, .approval_query = {.id = 3, .what = APPROVAL_LIST, .key = "secret"}},
        {.type = MSG_APPROVAL_QUERY,
         .approval_query = {.id = 4, .what = APPROVAL_GET, .key = "", .approval_id = APPROVAL_ID}},
        {.type = MSG_APPROVAL_QUERY,
         .approval_query = {.id = 5,
                            .what = APPROVAL_DECIDE,
                            .key = "secret",
                            .approval_id = APPROVAL_ID,
                            .approve = true,
                            .reason = "why not"}},
        {.type = MSG_APPROVAL_ANSWER, .approval_answer = {.id = 5}},
        {.type = MSG_APPROVAL_ANSWER, .approval_answer = {.id = 5, .not_needed = true}},
        {.type = MSG_APPROVAL_ANSWER,
         .approval_answer = {.id = 5, .kind = ERR_CONFLICT, .item = "", .text = "the job is rejected"}},
        {.type = MSG_APPROVAL_CHANGED,
         .approval_changed = {.approval_id = APPROVAL_ID, .state = APPROVAL_LOST, .reason = "gone"}},
        {.type = MSG_APPROVAL_RUN, .approval_run = {.approval_id = APPROVAL_ID}},
        {.type = MSG_RUN, .run = {.id = 8, .approval_id = APPROVAL_ID}},
        {.type = MSG_CONFIG, .config = {.audit = false}},
        {.type = MSG_CALLERS},
        {.type = MSG_HELLO},
        {.type = MSG_CANCEL, .cancel = {.id = 9}},
        {.type = MSG_PING, .ping = {.number = 7}},
        {.type = MSG_PONG, .pong = {.number = UINT64_MAX}},
        {.type = MSG_REFUSED,
         .refused = {.id = 1,
                     .kind = ERR_BUSY,
                     .item = "",
                     .text = "server busy",
                     .retry_after_ms = 12,
                     .no_slot = true}},
        {.type = MSG_STATE,
         .state =
             {.ready = false, .why = "step 7", .front_restarts = 2, .leftovers_swept = 1, .heap_bytes = 3}},
        {.type = MSG_STATE,
         .state = {.ready = true,
                   .draining = true,
                   .begins_nothing = true,
                   .superseded = true,
                   .degraded = "no memory controller",
                   .sessions = 3,
                   .kernels = 2,
                   .jobs_elsewhere = 6,
                   .short_of_memory = true,
                   .ended_for_memory = 7,
                   .approvals_pending = 1,
                   .approvals_approved = 2,
                   .approvals_rejected = 3,
                   .approvals_expired = 4,
                   .approvals_lost = 5,
                   .reload_refused = true,
                   .reloaded_ms = 6,
                   .log_lines_lost = 7,
                   .audit_lines_lost = 8,
                   .audit_stopped = true,
                   .session_bytes = 9,
                   .session_bytes_most = 10,
                   .warm = {{.runtime = "python",
                             .parked = 4,
                             .building = 1,
                             .pss_bytes = 2,
                             .in_images = 4,
                             .templates_replaced = 3}},
                   .n_warm = 1,
                   .failing = {{.runtime = "c", .why = "exit code 1"}, {.runtime = "d", .why = ""}},
                   .n_failing = 2}},
        {.type = MSG_STARTED, .started = {.id = 9}},
        {.type = MSG_SESSION_QUERY, .session_query = {.id = 4, .what = SESSION_LIST, .key = "default"}},
        {.type = MSG_SESSION_QUERY,
         .session_query = {.id = 5, .what = SESSION_DELETE, .key = "open", .session_id = "s-1"}},
        {.type = MSG_SESSION_QUERY,
         .session_query = {.id = 6,
                           .what = SESSION_FILE_PUT,
                           .key = "open",
                           .session_id = "slack/C01/17.2",
                           .path = "d/\xc3\xbc"}},
        {.type = MSG_SESSION_QUERY,
         .session_query = {.id = 7,
                           .what = SESSION_FORK,
                           .key = "open",
                           .session_id = "s-1",
                           .others = {{"a"}, {"b/\xc3\xbc"}},
                           .n_others = 2}},
        {.type = MSG_SESSION_ANSWER,
         .session_answer = {.id = 7, .files = 3, .left_out = 1, .kernel = SESSION_KERNEL_ENDED}},
        {.type = MSG_SESSION_ANSWER, .session_answer = {.id = 4, .size = 7, .made = true}},
        {.type = MSG_SESSION_ANSWER,
         .session_answer = {.id = 5, .kind = ERR_DENIED, .text = "another key's"}},
        {.type = MSG_KEEP, .keep = {.id = 6, .status = "success"}},
        {.type = MSG_KEPT_QUERY, .kept_query = {.id = 1, .what = KEPT_LIST, .key = "secret"}},
        {.type = MSG_KEPT_QUERY, .kept_query = {.id = 2, .what = KEPT_GET, .job_id = APPROVAL_ID}},
        {.type = MSG_KEPT_QUERY,
         .kept_query = {.id = 3, .what = KEPT_DELETE, .key = "k", .job_id = APPROVAL_ID, .reason = "why"}},
        {.type = MSG_RELAY, .relay = {.id = 1, .what = RELAY_ANSWERS, .key = "k", .about = "e"}},
        {.type = MSG_RELAY,
         .relay = {.id = 2, .what = RELAY_TERMINATE, .key = "k", .about = "e", .reason = "why"}},
        {.type = MSG_RELAY_ANSWER, .relay_answer = {.id = 1}},
        {.type = MSG_RELAY_ANSWER,
         .relay_answer = {.id = 2, .kind = ERR_INVALID, .item = "[0]", .text = "must be an object"}},
        {.type = MSG_KEPT_ANSWER, .kept_answer = {.id = 4}},
        {.type = MSG_KEPT_ANSWER, .kept_answer = {.id = 5, .kind = ERR_NOT_FOUND, .text = "no such job"}},
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
            assert_true(in.refused.no_slot);
        }
        msg_clear(&in);
    }
}

static void test_session_rows_round_trip(void **state)
{
    (void)state;
    CLEANUP(buf_free) struct buf buf = BUF_INIT;
    struct session_row sessions[] = {
        {.session_id = "a",
         .created_ms = 1,
         .used_ms = 2,
         .expires_ms = 3,
         .bytes = 4,
         .files = 5,
         .jobs = 6},
        {.created_ms = UINT64_MAX, .jobs = UINT32_MAX},
    };
    static char path[] = "d/f\xff";
    struct session_file file = {.path = path, .size = UINT64_MAX, .modified_ms = 9};
    memset(sessions[1].session_id, 'n', SESSION_ID_BYTES - 1);
    const struct session_rows out = {
        .sessions = sessions, .n_sessions = 2, .files = &file, .n_files = 1, .truncated = true};
    struct session_rows in = {0};
    struct err err = {0};
    assert_int_equal(session_rows_encode(&out, &buf, &err), 0);
    assert_int_equal(session_rows_decode(buf.data, buf.len, &in, &err), 0);
    assert_int_equal(in.n_sessions, 2);
    assert_memory_equal(in.sessions, sessions, sizeof sessions);
    assert_int_equal(in.n_files, 1);
    assert_string_equal(in.files[0].path, path);
    assert_true(in.files[0].size == UINT64_MAX && in.files[0].modified_ms == 9 && in.truncated);
    session_rows_clear(&in);
}

static void test_names_of_sessions(void **state)
{
    static const char *const good[] = {
        "a",         ".",        "..",  ".a",   "user@example.com", "thread:42",       "slack/C01/17.2",
        "auth0|abc", "\xc3\xbc", "a b", "\"\\", "\xc2\xa0",         "\xf0\x9f\x90\x9f"};
    static const char *const bad[] = {"", "\n", "a\x1f", "\x7f", "\xc2\x80", "a\xc2\x9f", "\xff", "\xc3"};
    (void)state;
    char longest[SESSION_ID_BYTES + 1] = "";
    for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
        assert_true(session_id_is_valid(good[i]));
    }
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        assert_false(session_id_is_valid(bad[i]));
    }
    memset(longest, 'x', SESSION_ID_BYTES - 1);
    assert_true(session_id_is_valid(longest));
    longest[SESSION_ID_BYTES - 1] = 'x';
    assert_false(session_id_is_valid(longest));
}

/* As many as there can be, with the longest names and as much of lists as is told. */
static void test_policies_round_trip(void **state)
{
    (void)state;
    CLEANUP(buf_free) struct buf buf = BUF_INIT, again = BUF_INIT;
    static char name[65], hash[65], module[MSG_POLICY_LISTS_MAX - 8], *modules[] = {module};
    static struct msg_policy policies[MSG_POLICIES_MAX];
    static char *held[MSG_POLICIES_MAX];
    memset(name, 'n', sizeof name - 1);
    memset(hash, 'f', sizeof hash - 1);
    memset(module, 'm', sizeof module - 1);
    for (size_t i = 0; i < ARRAY_SIZE(policies); i++) {
        policies[i] = (struct msg_policy){
            .name = name,
            .sha256 = hash,
            .image = name,
            .limits = {UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX},
            .approval = 2,
            .kernel = true,
            .loopback = true,
            .egress = true,
            .has_lists = true};
        held[i] = name;
    }
    policies[1].preload = modules;
    policies[1].n_preload = 1;
    const struct msg out = {.type = MSG_CONFIG,
                            .config = {.held = held,
                                       .n_held = ARRAY_SIZE(held),
                                       .policies = policies,
                                       .n_policies = ARRAY_SIZE(policies)}};
    struct msg in = {0};
    encode(&out, &buf);
    decode(&buf, NULL, 0, &in);
    assert_int_equal(in.config.n_policies, ARRAY_SIZE(policies));
    assert_string_equal(in.config.policies[1].preload[0], module);
    encode(&in, &again);
    assert_int_equal(buf.len, again.len);
    assert_memory_equal(buf.data, again.data, buf.len);
    msg_clear(&in);
}

static void test_kept_rows_round_trip(void **state)
{
    (void)state;
    CLEANUP(buf_free) struct buf buf = BUF_INIT;
    static struct kept_row rows[MSG_KEPT_MAX];
    /* As many as there can be, with the longest texts. */
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        memcpy(rows[i].job_id, APPROVAL_ID, sizeof rows[i].job_id);
        memset(rows[i].execution_id, 'e', sizeof rows[i].execution_id - 1);
        memset(rows[i].runtime, 'r', sizeof rows[i].runtime - 1);
        memset(rows[i].status, 's', sizeof rows[i].status - 1);
        rows[i].created_ms = rows[i].ended_ms = rows[i].expires_ms = UINT64_C(1) << 48;
    }
    const struct msg out = {.type = MSG_KEPT_ANSWER,
                            .kept_answer = {.id = 9, .rows = rows, .n_rows = ARRAY_SIZE(rows)}};
    struct msg in = {0};
    encode(&out, &buf);
    decode(&buf, NULL, 0, &in);
    assert_int_equal(in.kept_answer.n_rows, ARRAY_SIZE(rows));
    assert_memory_equal(in.kept_answer.rows, rows, sizeof rows);
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
        cmocka_unit_test(test_kept_rows_round_trip),
        cmocka_unit_test(test_policies_round_trip),
        cmocka_unit_test(test_names_of_sessions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
