/* config/message/approval.c: packed and read again; what nobody would have packed is refused. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "config/message/approval.h"
#include "config/message/job.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"

#define ID "00000000-0000-4000-8000-00000000000a"

static struct approval make_approval(void)
{
    struct approval approval = {.id = ID,
                                .state = APPROVAL_LOST,
                                .key = "k",
                                .team = "t",
                                .owner = {1, 2, 3},
                                .runtime = "python",
                                .policy = "held",
                                .execution_id = "e",
                                .submission_bytes = 9,
                                .created_ms = 1,
                                .expires_ms = 2,
                                .decided_ms = 3,
                                .ended_ms = 4,
                                .decided_by = "boss",
                                .reason = "why",
                                .outcome = "gone",
                                .code = "a\nb",
                                .code_size = 3,
                                .code_truncated = true};
    memset(approval.policy_sha256, 'a', SHA256_HEX - 1);
    memset(approval.code_sha256, 'b', SHA256_HEX - 1);
    memset(approval.submission_sha256, 'c', SHA256_HEX - 1);
    return approval;
}

static void test_approvals_round_trip(void **state)
{
    (void)state;
    CLEANUP(buf_free) struct buf one = BUF_INIT, all = BUF_INIT;
    struct approval rows[2] = {make_approval(), make_approval()}, again;
    struct approval_rows told = {0};
    assert_int_equal(approval_encode(&rows[0], &one), 0);
    assert_int_equal(approval_decode(one.data, one.len, &again, NULL), 0);
    assert_memory_equal(&again, &rows[0], sizeof again);
    assert_int_equal(approval_rows_encode(&(struct approval_rows){.rows = rows, .n = 2}, &all), 0);
    assert_int_equal(approval_rows_decode(all.data, all.len, &told, NULL), 0);
    assert_int_equal(told.n, 2);
    assert_memory_equal(&told.rows[1], &rows[1], sizeof again);
    approval_rows_clear(&told);
    for (size_t cut = 1; cut <= one.len; cut++) {
        struct err err = {0};
        assert_true(approval_decode(one.data, one.len - cut, &again, &err) < 0);
        assert_int_equal(err.kind, ERR_INVALID);
    }
}

static void test_approvals_that_are_none(void **state)
{
    (void)state;
    static const size_t damaged[] = {offsetof(struct approval, id), offsetof(struct approval, policy_sha256),
                                     offsetof(struct approval, submission_sha256)};
    for (size_t i = 0; i < ARRAY_SIZE(damaged) + 2; i++) {
        CLEANUP(buf_free) struct buf packed = BUF_INIT;
        struct approval approval = make_approval(), again;
        struct err err = {0};
        if (i < ARRAY_SIZE(damaged)) {
            ((char *)&approval)[damaged[i]] = '/';
        } else if (i == ARRAY_SIZE(damaged)) {
            approval.state = APPROVAL_STATE_COUNT;
        } else {
            approval.code[1] = '\0';
        }
        assert_int_equal(approval_encode(&approval, &packed), 0);
        assert_true(approval_decode(packed.data, packed.len, &again, &err) < 0);
        assert_int_equal(err.kind, ERR_INVALID);
    }
}

/* From `from` to each of `to`, and to nothing else. */
static void test_steps(void **state)
{
    (void)state;
    static const bool steps[APPROVAL_STATE_COUNT][APPROVAL_STATE_COUNT] = {
        [APPROVAL_PENDING] =
            {[APPROVAL_APPROVED] = true, [APPROVAL_REJECTED] = true, [APPROVAL_EXPIRED] = true},
        [APPROVAL_APPROVED] = {[APPROVAL_RUNNING] = true, [APPROVAL_LOST] = true},
        [APPROVAL_RUNNING] = {[APPROVAL_DONE] = true, [APPROVAL_LOST] = true},
    };
    for (int from = 0; from < APPROVAL_STATE_COUNT; from++) {
        for (int to = 0; to < APPROVAL_STATE_COUNT; to++) {
            assert_int_equal(approval_may_become((enum approval_state)from, (enum approval_state)to),
                             steps[from][to]);
        }
        assert_string_not_equal(approval_state_to_string((enum approval_state)from), "unknown");
    }
}

static void test_names(void **state)
{
    (void)state;
    assert_true(approval_id_is_valid(ID));
    static const char *const none[] = {"",
                                       "a",
                                       "00000000-0000-4000-8000-00000000000aa",
                                       "00000000-0000-4000-8000-00000000000/",
                                       "../../../../../../../../../etc/passw",
                                       "00000000-0000-4000-8000-00000000000A"};
    for (size_t i = 0; i < ARRAY_SIZE(none); i++) {
        assert_false(approval_id_is_valid(none[i]));
    }
}

static char python[] = "python", path[] = "f.txt", input[] = "print(1)data", text[] = "x";

static void test_submissions(void **state)
{
    (void)state;
    struct job_file file = {.path = path, .offset = 8, .size = 4};
    struct job job = {.id = 5,
                      .runtime = python,
                      .execution_id = text,
                      .key = text,
                      .announce = true,
                      .early_ms = 100,
                      .code_size = 8,
                      .files = &file,
                      .n_files = 1};
    const struct submission submission = {.job = &job,
                                          .input = input,
                                          .input_size = 12,
                                          .stdin_data = text,
                                          .stdin_size = 1,
                                          .request_id = text};
    CLEANUP(buf_free) struct buf packed = BUF_INIT, again = BUF_INIT;
    CLEANUP(submission_clear) struct submission read = {0};
    assert_int_equal(submission_encode(&submission, &packed), 0);
    assert_int_equal(submission_decode(packed.data, packed.len, &read, NULL), 0);
    assert_int_equal(read.job->id, 0); /* which is not known before it runs */
    assert_false(read.job->announce);
    assert_int_equal(read.job->early_ms, 0);
    assert_memory_equal(read.input, input, 12);
    assert_string_equal(read.stdin_data, "x");
    assert_null(read.callback_url);
    assert_int_equal(submission_encode(&read, &again), 0);
    assert_int_equal(again.len, packed.len);
    assert_memory_equal(again.data, packed.data, packed.len);
    for (int in_code = 0; in_code < 2; in_code++) {
        CLEANUP(buf_free) struct buf bad = BUF_INIT;
        struct submission none = {0}, with_nul = submission;
        char nul[] = "print(1)data", stdin_nul[] = "x";
        nul[in_code ? 3 : 10] = '\0'; /* a file may hold one */
        stdin_nul[0] = in_code ? 'x' : '\0';
        with_nul.input = nul;
        with_nul.stdin_data = stdin_nul;
        assert_int_equal(submission_encode(&with_nul, &bad), 0);
        assert_int_equal(submission_decode(bad.data, bad.len, &none, NULL), -EBADMSG);
        stdin_nul[0] = nul[3] = 'n';
        bad.len = 0;
        assert_int_equal(submission_encode(&with_nul, &bad), 0);
        assert_int_equal(submission_decode(bad.data, bad.len, &none, NULL), 0);
        submission_clear(&none);
    }
    const struct {
        uint64_t code_size, offset, size;
    } beyond[] = {{0, 8, 4}, {13, 13, 0}, {8, 8, 5}, {8, 13, 0}, {8, UINT64_C(1) << 62, 1}};
    for (size_t i = 0; i < ARRAY_SIZE(beyond); i++) {
        CLEANUP(buf_free) struct buf bad = BUF_INIT;
        struct submission none = {0};
        struct err err = {0};
        job.code_size = beyond[i].code_size;
        file.offset = beyond[i].offset;
        file.size = beyond[i].size;
        assert_int_equal(submission_encode(&submission, &bad), 0);
        assert_true(submission_decode(bad.data, bad.len, &none, &err) < 0);
        assert_int_equal(err.kind, ERR_INVALID);
        assert_null(none.job);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_approvals_round_trip),
        cmocka_unit_test(test_approvals_that_are_none),
        cmocka_unit_test(test_steps),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_submissions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
