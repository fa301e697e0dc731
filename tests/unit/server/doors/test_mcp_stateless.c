/* server/doors/mcp_stateless.c: what a request says of itself, twice. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "config/format/json.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "server/doors/mcp_stateless.h"

#define KEY(name)     "\"io.modelcontextprotocol/" name "\":"
#define META(version) "\"_meta\":{" KEY("protocolVersion") version "," KEY("clientCapabilities") "{}}"
#define CALL(name)                                                                                           \
    "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":" name                     \
    "," META("\"" MCP_STATELESS "\"") "}}"

static struct json_doc *decode(const char *text, struct mcp_message *ret)
{
    struct json_doc *doc = NULL;
    struct err err = {0};
    print_message("%s\n", text);
    assert_int_equal(json_parse(text, strlen(text), &doc, &err), 0);
    assert_int_equal(mcp_decode(json_root(doc), ret, &err), 0);
    return doc;
}

static void body_and_headers_must_agree(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        struct mcp_headers headers;
        int code;
    } rows[] = {
        {CALL("\"a\""), {MCP_STATELESS, "tools/call", "a"}, 0},
        {CALL("\"a\""), {MCP_STATELESS, "tools/call", "=?base64?YQ==?="}, 0},
        {CALL("\"\\u00fc\""), {MCP_STATELESS, "tools/call", "=?base64?w7w=?="}, 0},
        {CALL("7"), {MCP_STATELESS, "tools/call", NULL}, 0}, /* for whoever knows the tools */
        {CALL("\"a\""), {MCP_STATELESS, "tools/call", "b"}, MCP_HEADER_MISMATCH},
        {CALL("\"a\""), {MCP_STATELESS, "tools/call", "=?base64?Yg==?="}, MCP_HEADER_MISMATCH},
        {CALL("\"a\""), {MCP_STATELESS, "tools/call", "=?base64?Y?="}, MCP_HEADER_MISMATCH},
        {CALL("\"a\""), {MCP_STATELESS, "tools/call", "=?base64?="}, MCP_HEADER_MISMATCH},
        {CALL("\"a\""), {MCP_STATELESS, "tools/call", NULL}, MCP_HEADER_MISMATCH},
        {CALL("\"a\""), {MCP_STATELESS, "tools/list", "a"}, MCP_HEADER_MISMATCH},
        {CALL("\"a\""), {MCP_STATELESS, NULL, "a"}, MCP_HEADER_MISMATCH},
        {CALL("\"a\""), {NULL, "tools/call", "a"}, MCP_HEADER_MISMATCH},
        {CALL("\"a\""), {"2025-11-25", "tools/call", "a"}, MCP_HEADER_MISMATCH},
        {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\",\"params\":{" META("\"2027-01-01\"") "}}",
         {"2027-01-01", "m", NULL},
         MCP_UNSUPPORTED_VERSION},
        {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\",\"params\":{" META("7") "}}",
         {MCP_STATELESS, "m", NULL},
         MCP_INVALID_PARAMS},
        {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\",\"params\":{\"_meta\":{" KEY(
             "protocolVersion") "\"" MCP_STATELESS "\"}}}",
         {MCP_STATELESS, "m", NULL},
         MCP_INVALID_PARAMS},
        {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\"}", {MCP_STATELESS, "m", NULL}, MCP_INVALID_PARAMS},
    };
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct mcp_message message;
        struct err err = {0};
        struct json_doc *doc = decode(rows[i].text, &message);
        assert_true(mcp_is_stateless(&message, &rows[i].headers));
        assert_int_equal(mcp_check_stateless(&message, &rows[i].headers, &err), rows[i].code);
        assert_int_equal(err.text[0] == '\0', rows[i].code == 0);
        json_free(doc);
    }
}

static void other_messages_are_of_other_revisions(void **state)
{
    (void)state;
    static const struct mcp_headers headers[] = {{NULL, NULL, NULL}, {"2025-11-25", "m", NULL}};
    struct mcp_message message;
    struct json_doc *doc =
        decode("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\",\"params\":{\"_meta\":{\"progressToken\":1}}}",
               &message);
    CLEANUP(buf_free) struct buf lines = BUF_INIT;
    for (size_t i = 0; i < ARRAY_SIZE(headers); i++) {
        assert_false(mcp_is_stateless(&message, &headers[i]));
    }
    assert_true(mcp_put_headers(&message, &lines));
    assert_int_equal(lines.len, 0);
    json_free(doc);
}

static void headers_are_made_of_the_body(void **state)
{
    (void)state;
#define LINES "MCP-Protocol-Version: " MCP_STATELESS "\r\nMcp-Method: tools/call\r\nMcp-Name: "
    static const struct {
        const char *text, *lines;
    } rows[] = {
        {CALL("\"execute_code\""), LINES "execute_code\r\n"},
        {CALL("\"a b\""), LINES "a b\r\n"},
        {CALL("\" a\""), LINES "=?base64?IGE=?=\r\n"},
        {CALL("\"\""), LINES "=?base64?"
                             "?=\r\n"},
        {CALL("\"a\\r\\nX: y\""), LINES "=?base64?YQ0KWDogeQ==?=\r\n"},
        {CALL("\"\\u00fc\""), LINES "=?base64?w7w=?=\r\n"},
        {CALL("\"=?base64?YQ==?=\""), LINES "=?base64?PT9iYXNlNjQ/WVE9PT89?=\r\n"},
        {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\",\"params\":{" META("\"1\\r\\n2\"") "}}",
         "MCP-Protocol-Version: =?base64?MQ0KMg==?=\r\nMcp-Method: m\r\n"},
        {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\\r\\nX: y\",\"params\":{" META("\"1\"") "}}", NULL},
    };
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct mcp_message message;
        struct json_doc *doc = decode(rows[i].text, &message);
        CLEANUP(buf_free) struct buf lines = BUF_INIT;
        assert_int_equal(mcp_put_headers(&message, &lines), rows[i].lines != NULL);
        assert_string_equal(rows[i].lines ? lines.data : "", rows[i].lines ? rows[i].lines : "");
        json_free(doc);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(body_and_headers_must_agree),
        cmocka_unit_test(other_messages_are_of_other_revisions),
        cmocka_unit_test(headers_are_made_of_the_body),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
