/* server/kit/accept.c: which media types a header lists. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "jail/base/cleanup.h"
#include "server/kit/accept.h"

static void test_lists(void **state)
{
    (void)state;
    static const char *const with[] = {
        "text/event-stream",
        "Text/Event-Stream",
        "application/json, text/event-stream",
        "application/json,text/event-stream;q=0.1",
        "text/event-stream ; charset=utf-8 ; q=1",
        "text/event-stream;q=0.001",
        "text/event-stream;q=",
        "text/event-stream;q=0x",
        "text/event-stream;q=0, text/event-stream",
    };
    static const char *const without[] = {
        NULL,
        "",
        "*/*",
        "text/*",
        "text/event-streams",
        "x/text/event-stream",
        "application/json;a=text/event-stream",
        "text/event-stream;q=0",
        "text/event-stream; Q=0.000",
        "text/event-stream ;level=1; q=0 , application/json",
        "text/event-stream;q=0;q=1",
    };
    for (size_t i = 0; i < ARRAY_SIZE(with); i++) {
        if (!accept_lists(with[i], "text/event-stream")) {
            fail_msg("not found in %s", with[i]);
        }
    }
    for (size_t i = 0; i < ARRAY_SIZE(without); i++) {
        if (accept_lists(without[i], "text/event-stream")) {
            fail_msg("found in %s", without[i]);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_lists)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
