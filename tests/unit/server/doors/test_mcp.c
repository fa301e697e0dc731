/* server/doors/mcp.c, server/doors/mcp_session.c: messages, versions, ids of sessions. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "config/format/json.h"
#include "config/server/config.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "server/callers/auth.h"
#include "server/doors/mcp.h"
#include "server/doors/mcp_session.h"

static void messages_are_of_three_kinds(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int kind; /* -1: none */
        const char *id;
    } rows[] = {
        {"{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"m\"}", MCP_REQUEST, "7"},
        {"{\"jsonrpc\":\"2.0\",\"id\":9007199254740993,\"method\":\"m\"}", MCP_REQUEST, "9007199254740993"},
        {"{\"jsonrpc\":\"2.0\",\"id\":\"\\u0061\\n\",\"method\":\"m\",\"params\":{}}", MCP_REQUEST,
         "\"a\\n\""},
        {"{\"jsonrpc\":\"2.0\",\"method\":\"m\"}", MCP_NOTIFICATION, "null"},
        {"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":null}", MCP_RESPONSE, "1"},
        {"{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{}}", MCP_RESPONSE, "null"},
        {"{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{},\"result\":1}", -1, "1"},
        {"{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":7}", -1, "1"},
        {"{\"jsonrpc\":\"2.0\",\"result\":1}", -1, "null"},
        {"{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"m\"}", -1, "null"},
        {"{\"jsonrpc\":2.0,\"id\":1,\"method\":\"m\"}", -1, "1"},
        {"[]", -1, "null"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct json_doc *doc = NULL;
        struct mcp_message message;
        struct err err = {0};
        print_message("%s\n", rows[i].text);
        assert_int_equal(json_parse(rows[i].text, strlen(rows[i].text), &doc, &err), 0);
        int r = mcp_decode(json_root(doc), &message, &err);
        assert_int_equal(r < 0, rows[i].kind < 0);
        assert_string_equal(message.id, rows[i].id);
        if (r == 0) {
            assert_int_equal(message.kind, rows[i].kind);
        } else {
            assert_int_equal(err.kind, ERR_INVALID);
        }
        json_free(doc);
    }
}

static void a_session_is_its_keys(void **state)
{
    (void)state;
    const struct key_config keys[] = {{.sha256 = {1}}, {.sha256 = {2}}};
    const struct caller one = {.key = &keys[0]}, other = {.key = &keys[1]}, open = {.key = NULL};
    char id[MCP_SESSION_BYTES], again[MCP_SESSION_BYTES];
    struct mcp_sessions *sessions = mcp_sessions_new();
    mcp_session_issue(&one, id);
    mcp_session_issue(&one, again);
    assert_string_not_equal(id, again);
    assert_true(mcp_session_is_valid(sessions, &one, id));
    assert_false(mcp_session_is_valid(sessions, &other, id));
    assert_false(mcp_session_is_valid(sessions, &open, id));
    for (size_t i = 0; i < sizeof id - 1; i++) {
        char wrong[MCP_SESSION_BYTES];
        memcpy(wrong, id, sizeof id);
        wrong[i] = wrong[i] == '0' ? '1' : '0';
        assert_false(mcp_session_is_valid(sessions, &one, wrong));
    }
    assert_false(mcp_session_is_valid(sessions, &one, ""));
    mcp_session_end(sessions, id);
    assert_false(mcp_session_is_valid(sessions, &one, id));
    assert_true(mcp_session_is_valid(sessions, &one, again));
    for (int i = 0; i < 1023; i++) {
        mcp_session_end(sessions, again);
    }
    assert_false(mcp_session_is_valid(sessions, &one, id)); /* the last that is remembered */
    mcp_session_end(sessions, again);
    assert_true(mcp_session_is_valid(sessions, &one, id));
    mcp_sessions_free(sessions);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_are_of_three_kinds),
        cmocka_unit_test(a_session_is_its_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
