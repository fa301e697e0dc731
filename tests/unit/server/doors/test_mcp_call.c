/* server/doors/mcp_call.c: answers that are no result, and progress. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/clock.h"
#include "jail/base/err.h"
#include "server/doors/mcp_call.h"

static void a_refusal_is_a_result_with_the_calls_id(void **state)
{
    (void)state;
    static const struct {
        struct err err;
        const char *text, *code;
    } rows[] = {
        {{.kind = ERR_BUSY, .text = "full"}, "\"Error: full\"", "\"busy\""},
        {{.kind = ERR_INTERNAL, .text = "a secret"}, "\"Error: internal error\"", "\"internal_error\""},
    };
    const struct mcp_call call = {.id = "\"a\""};
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        CLEANUP(buf_free) struct buf reply = BUF_INIT;
        mcp_door.encode_refusal(&call, &rows[i].err, &reply);
        assert_ptr_equal(strstr(reply.data, "{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"result\":{"), reply.data);
        assert_non_null(strstr(reply.data, rows[i].text));
        assert_non_null(strstr(reply.data, rows[i].code));
        assert_null(strstr(reply.data, "secret"));
    }
}

static void progress_is_for_who_has_asked(void **state)
{
    (void)state;
    CLEANUP(buf_free) struct buf progress = BUF_INIT;
    struct mcp_call call = {.id = "1", .started_ns = clock_now_ns(), .timeout_ms = 1500};
    assert_false(mcp_door.encode_progress(&call, "running", &progress));
    assert_int_equal(progress.len, 0);
    strcpy(call.progress_token, "7");
    assert_true(mcp_door.encode_progress(&call, "running", &progress));
    assert_non_null(strstr(progress.data, "\"progressToken\":7,"));
    assert_non_null(strstr(progress.data, "\"total\":1.500"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_refusal_is_a_result_with_the_calls_id),
        cmocka_unit_test(progress_is_for_who_has_asked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
