/* config/message/stored_session.c: what is written can be read, and nothing else is taken for it. */
#include "config/message/stored_session.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"

#define HASH "abababababababababababababababababababababababababababababababab"

static int read_text(const char *text, struct stored_session *ret, struct err *err)
{
    return stored_session_read("session", text, strlen(text), ret, err);
}

static void test_there_and_back(void **state)
{
    (void)state;
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    struct stored_session session = {.created_ms = 1700000000123}, same;
    struct err err = {0};
    memset(session.id, '"', SESSION_ID_BYTES - 1);
    memcpy(session.id, "a\\b/\xc3\xbc '", 8);
    memset(session.owner, 0xab, sizeof session.owner);
    assert_int_equal(stored_session_write(&session, &text), 0);
    assert_non_null(strstr(text.data, HASH));
    assert_int_equal(read_text(text.data, &same, &err), 0);
    assert_memory_equal(&same, &session, sizeof same);
}

static void test_what_is_refused(void **state)
{
    static const struct {
        const char *text, *item, *sentence;
    } cases[] = {
        {"", "session:1:1", "\"session_id\" is missing"},
        {"session_id: 'a' key_sha256: '" HASH "'", "session:1:", "\"created_ms\" is missing"},
        {"session_id: 'a\\n' key_sha256: '" HASH "' created_ms: 1", "session:1:13", "no name of a session"},
        {"session_id: '' key_sha256: '" HASH "' created_ms: 1", "session:1:13", "no name of a session"},
        {"session_id: 'a' key_sha256: 'abab' created_ms: 1", "session:1:", "64 hexadecimal digits"},
        {"session_id: 'a' key_sha256: '" HASH "' created_ms: -1", "session:1:", "created_ms: "},
        {"session_id: 'a' key_sha256: '" HASH "' created_ms: 1 more: 2", "session:1:", "more"},
        {"session_id: 'a' session_id: 'b' key_sha256: '" HASH "' created_ms: 1", "session:1:", "session_id"},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct stored_session session = {.id = "untouched"};
        struct err err = {0};
        assert_true(read_text(cases[i].text, &session, &err) < 0);
        print_message("%s: %s\n", err.item, err.text);
        assert_int_equal(err.kind, ERR_CONFIG);
        assert_int_equal(strncmp(err.item, cases[i].item, strlen(cases[i].item)), 0);
        assert_non_null(strstr(err.text, cases[i].sentence));
        assert_string_equal(session.id, "untouched");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_there_and_back),
        cmocka_unit_test(test_what_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
