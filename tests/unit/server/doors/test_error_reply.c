/* server/doors/error_reply.c: statuses, codes and bodies. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "server/doors/error_reply.h"

static void each_kind_has_its_status(void **state)
{
    (void)state;
    static const struct {
        enum err_kind kind;
        unsigned status;
        const char *item, *code;
    } rows[] = {
        {ERR_INTERNAL, 500, "", "internal_error"},
        {ERR_INVALID, 400, "code", "invalid_field"},
        {ERR_INVALID, 400, "", "invalid_request"},
        {ERR_CONFIG, 500, "server:1:1", "internal_error"},
        {ERR_DENIED, 403, "", "forbidden"},
        {ERR_NOT_FOUND, 404, "", "not_found"},
        {ERR_NOT_FOUND, 400, "policy", "invalid_field"},
        {ERR_BUSY, 503, "", "busy"},
        {ERR_RATE, 429, "", "rate_limited"},
        {ERR_TOO_LARGE, 413, "", "too_large"},
        {ERR_HOST, 500, "", "internal_error"},
        {ERR_SETUP, 500, "", "setup_error"},
        {ERR_CONFLICT, 409, "", "conflict"},
        {ERR_APPROVAL, 403, "policy", "approval_required"},
        {ERR_UNAVAILABLE, 503, "", "unavailable"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct err err = {0};
        err_set(&err, rows[i].kind, 1, rows[i].item, "x");
        enum error_class class = error_class_of(&err);
        assert_int_equal(error_status(class), rows[i].status);
        assert_string_equal(error_code(class), rows[i].code);
    }
}

static void assert_written(const struct err *err, const char *expected)
{
    struct buf body = BUF_INIT;
    error_write_err(&body, err);
    assert_string_equal(body.data, expected);
    buf_free(&body);
}

static void names_the_field(void **state)
{
    (void)state;
    struct err err = {0};
    err_set(&err, ERR_INVALID, 22, "timeout_ms", "timeout_ms: must be a whole number from 1 up");
    assert_written(
        &err, "{\"error\": \"timeout_ms: must be a whole number from 1 up\", \"code\": \"invalid_field\", "
              "\"field\": \"timeout_ms\"}\n");
    err_clear(&err);
    err_set(&err, ERR_INVALID, 22, "runtime", "unsupported runtime: x");
    assert_written(
        &err,
        "{\"error\": \"unsupported runtime: x\", \"code\": \"invalid_field\", \"field\": \"runtime\"}\n");
}

static void tells_nothing_of_internal_errors(void **state)
{
    (void)state;
    struct err err = {0};
    err_set(&err, ERR_INTERNAL, 5, "/etc/secret", "reading /etc/secret: denied");
    assert_written(&err, "{\"error\": \"internal error\", \"code\": \"internal_error\", \"field\": null}\n");
}

static void names_the_step_of_a_setup_error(void **state)
{
    (void)state;
    struct err err = {.kind = ERR_SETUP, .step = "step 7 (bind /usr)", .text = "Permission denied"};
    assert_written(&err, "{\"error\": \"step 7 (bind /usr): Permission denied\", \"code\": \"setup_error\", "
                         "\"field\": null, \"status\": \"setup_error\", \"step\": \"step 7 (bind /usr)\"}\n");
}

static void every_class_has_a_sentence(void **state)
{
    (void)state;
    for (int i = 0; i < ERROR_CLASS_COUNT; i++) {
        struct buf body = BUF_INIT;
        error_write(&body, (enum error_class)i, NULL, NULL, NULL);
        assert_null(strstr(body.data, "\"error\": null"));
        assert_null(strstr(body.data, "\"code\": null"));
        assert_in_range(error_status((enum error_class)i), 400, 599);
        buf_free(&body);
    }
}

static void rounds_retry_after_up(void **state)
{
    (void)state;
    assert_int_equal(error_retry_after_s(0), 1);
    assert_int_equal(error_retry_after_s(1), 1);
    assert_int_equal(error_retry_after_s(1000), 1);
    assert_int_equal(error_retry_after_s(1001), 2);
    assert_true(error_retry_after_s(UINT64_MAX) > 1000000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_kind_has_its_status),         cmocka_unit_test(names_the_field),
        cmocka_unit_test(tells_nothing_of_internal_errors), cmocka_unit_test(names_the_step_of_a_setup_error),
        cmocka_unit_test(every_class_has_a_sentence),       cmocka_unit_test(rounds_retry_after_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
