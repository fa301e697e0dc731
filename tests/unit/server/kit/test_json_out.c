/* server/kit/json_out.c: commas, escapes and nesting. */
#include "server/kit/json_out.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "jail/base/buf.h"

static void writes_objects(void **state)
{
    (void)state;
    struct buf text = BUF_INIT;
    buf_putc(&text, '{');
    json_out_text(&text, "a", "x\"{");
    json_out_text(&text, "b", NULL);
    json_out_bytes(&text, "c", "\xff\0[", 3);
    json_out_bytes(&text, "d", NULL, 0);
    json_out_bool(&text, "e", true);
    json_out_open(&text, "f", '[');
    json_out_separator(&text);
    buf_puts(&text, "{}");
    json_out_separator(&text);
    buf_puts(&text, "{");
    json_out_u64(&text, "g", UINT64_MAX);
    buf_puts(&text, "}]");
    json_out_open(&text, "h", '{');
    json_out_i64(&text, "i", INT64_MIN);
    json_out_known(&text, "j", true, 0);
    json_out_known(&text, "k", false, 5);
    buf_puts(&text, "}}");
    assert_string_equal(text.data,
                        "{\"a\":\"x\\\"{\",\"b\":null,\"c\":\"\xef\xbf\xbd\\u0000[\",\"d\":\"\",\"e\":true,"
                        "\"f\":[{},{\"g\":18446744073709551615}],"
                        "\"h\":{\"i\":-9223372036854775808,\"j\":0,\"k\":null}}");
    buf_free(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(writes_objects)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
