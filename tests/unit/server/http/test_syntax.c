/* server/http/syntax.c: what is taken for a request, and what is refused of its line, headers and chunks. */
#include "server/http/syntax.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "jail/base/cleanup.h"

struct text {
    const char *data;
    size_t size;
};
#define TEXT(literal)                                                                                        \
    {                                                                                                        \
        literal, sizeof(literal) - 1                                                                         \
    }

/* Reads it whole and in pieces, in which the same must be seen. */
static enum http_syntax_verdict read_head(const char *text, size_t size, char *data, struct http_head *ret)
{
    size_t at_once = 0, scanned = 0;
    ssize_t whole = http_syntax_head_size(text, size, &at_once), found = 0;
    for (size_t n = 0; n <= size && found == 0; n++) {
        found = http_syntax_head_size(text, n, &scanned);
    }
    assert_int_equal(whole, found);
    if (whole < 0) {
        return HTTP_SYNTAX_MALFORMED;
    }
    assert_int_equal(whole, size);
    memcpy(data, text, size);
    return http_syntax_read(data, size, ret);
}

static enum http_syntax_verdict check(struct text text)
{
    char *data = malloc(text.size); /* exactly so long, for the sanitizer */
    struct http_head head;
    assert_non_null(data);
    enum http_syntax_verdict verdict = read_head(text.data, text.size, data, &head);
    free(data);
    return verdict;
}

static void takes_what_is_well_formed(void **state)
{
    (void)state;
    static const struct text rows[] = {
        TEXT("GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
        TEXT("\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n"),
        TEXT("GET / HTTP/1.0\r\n\r\n"),
        TEXT("GET / HTTP/1.0\r\nHost: x\r\n\r\n"),
        TEXT("M-SEARCH /a%20b HTTP/1.1\r\nhOST:x\r\nA: \r\nB:c\td\x80\r\nC:\t d \t\r\n\r\n"),
        TEXT("POST /x HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"),
    };
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        assert_int_equal(check(rows[i]), HTTP_SYNTAX_SOUND);
    }
}

static void refuses_what_is_not(void **state)
{
    (void)state;
    static const struct text rows[] = {
        TEXT("\r\n\r\n"),
        TEXT("\nGET / HTTP/1.1\r\nHost: x\r\n\r\n"),
        TEXT("GET / HTTP/1.1\r\n\r\n"),
        TEXT("GET / HTTP/1.1\r\nHost: x\r\nHost: x\r\n\r\n"),
        TEXT("GET / HTTP/1.0\r\nHost: x\r\nHost: x\r\n\r\n"),
        TEXT("GET / HTTP/1.2\r\nHost: x\r\n\r\n"),
        TEXT("GET / HTTP/1.1 \r\nHost: x\r\n\r\n"),
        TEXT("GET / http/1.1\r\nHost: x\r\n\r\n"),
        TEXT("GET /\r\nHost: x\r\n\r\n"),
        TEXT("GET\r\nHost: x\r\n\r\n"),
        TEXT(" / HTTP/1.1\r\nHost: x\r\n\r\n"),
        TEXT("GET  / HTTP/1.1\r\nHost: x\r\n\r\n"),
        TEXT("GET  HTTP/1.1\r\nHost: x\r\n\r\n"),
        TEXT("G(T / HTTP/1.1\r\nHost: x\r\n\r\n"),
        TEXT("GET http://x/ HTTP/1.1\r\nHost: x\r\n\r\n"),
        TEXT("OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n"),
        TEXT("GET /\x80 HTTP/1.1\r\nHost: x\r\n\r\n"),
        TEXT("GET /a\0b HTTP/1.1\r\nHost: x\r\n\r\n"),
        TEXT("GET / HTTP/1.1\r\nHost: x\r\nA : b\r\n\r\n"),
        TEXT("GET / HTTP/1.1\r\nHost: x\r\n: b\r\n\r\n"),
        TEXT("GET / HTTP/1.1\r\nHost: x\r\nA\r\n\r\n"),
        TEXT("GET / HTTP/1.1\r\nHost: x\r\n b: c\r\n\r\n"),
        TEXT("GET / HTTP/1.1\r\nHost: x\r\nA(: b\r\n\r\n"),
        TEXT("GET / HTTP/1.1\r\nHost: x\r\nA: b\rc\r\n\r\n"),
        TEXT("GET / HTTP/1.1\r\nHost: x\r\nA: b\x7f\r\n\r\n"),
        TEXT("GET / HTTP/1.1\r\nHost: x\r\nA: b\0c\r\n\r\n"),
        TEXT("GET / HTTP/1.1\nHost: x\r\n\r\n"),
        TEXT("GET / HTTP/1.1\r\nHost: x\nA: b\r\n\r\n"),
        TEXT("GET / HTTP/1.1\r\nHost: x\r\nA: b\r\n\n"),
        TEXT("GET / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked \r\n\r\n"),
        TEXT("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n"),
    };
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        if (check(rows[i]) != HTTP_SYNTAX_MALFORMED) {
            fail_msg("row %zu", i);
        }
    }
}

static void waits_for_the_whole_head(void **state)
{
    (void)state;
    static const char text[] = "GET / HTTP/1.1\r\nHost: x\r\n\r";
    size_t scanned = 0;
    assert_int_equal(http_syntax_head_size("", 0, &scanned), 0);
    assert_int_equal(http_syntax_head_size(text, sizeof text - 1, &scanned), 0);
}

static void tells_what_it_says(void **state)
{
    (void)state;
    static const char text[] = "PUT /a?b=c&d&e=%00 HTTP/1.1\r\nHost: x\r\nA:\t b \r\na: c\r\n"
                               "Connection: keep-alive , CLOSE\r\n\r\n";
    char data[sizeof text];
    struct http_head head;
    assert_int_equal(read_head(text, sizeof text - 1, data, &head), HTTP_SYNTAX_SOUND);
    assert_string_equal(head.method, "PUT");
    assert_string_equal(head.path, "/a");
    assert_memory_equal(head.query, "b=c\0d\0e=%00", 12);
    assert_ptr_equal(head.query + 11, head.query_end);
    assert_string_equal(http_syntax_field(&head, "A"), "b");
    assert_null(http_syntax_field(&head, "B"));
    assert_int_equal(head.n_fields, 4);
    assert_true(head.ends_connection && !head.is_1_0);
}

static void limits_the_number_of_headers(void **state)
{
    (void)state;
    for (int more = 0; more < 2; more++) {
        char text[1024] = "GET / HTTP/1.1\r\nHost: x\r\n";
        for (int i = 0; i < HTTP_HEADERS_MAX - 1 + more; i++) {
            strcat(text, "A:b\r\n");
        }
        strcat(text, "\r\n");
        assert_int_equal(check((struct text){text, strlen(text)}),
                         more ? HTTP_SYNTAX_TOO_MANY : HTTP_SYNTAX_SOUND);
    }
}

static void tells_how_the_body_ends(void **state)
{
    (void)state;
    static const struct {
        const char *headers;
        bool sound, chunked;
        uint64_t length;
    } rows[] = {
        {"", true, false, 0},
        {"Content-Length: 5\r\n", true, false, 5},
        {"Content-Length: 00\r\n", true, false, 0},
        {"Content-Length: 18446744073709551615\r\n", true, false, UINT64_MAX},
        {"Transfer-Encoding: Chunked\r\n", true, true, 0},
        {"Content-Length: 18446744073709551616\r\n", true, false, UINT64_MAX},
        {"Content-Length: 18446744073709551616x\r\n", false, false, 0},
        {"Content-Length: \r\n", false, false, 0},
        {"Content-Length: -1\r\n", false, false, 0},
        {"Content-Length: +1\r\n", false, false, 0},
        {"Content-Length: 1, 1\r\n", false, false, 0},
        {"Content-Length: 1\r\ncontent-length: 1\r\n", false, false, 0},
        {"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n", false, false, 0},
        {"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", false, false, 0},
        {"Transfer-Encoding: gzip, chunked\r\n", false, false, 0},
        {"Transfer-Encoding: identity\r\n", false, false, 0},
    };
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        char text[256] = "POST / HTTP/1.1\r\nHost: x\r\n", data[sizeof text];
        struct http_head head;
        struct http_framing framing;
        strcat(strcat(text, rows[i].headers), "\r\n");
        assert_int_equal(read_head(text, strlen(text), data, &head), HTTP_SYNTAX_SOUND);
        assert_int_equal(http_syntax_framing(&head, &framing), rows[i].sound);
        if (rows[i].sound) {
            assert_int_equal(framing.chunked, rows[i].chunked);
            assert_int_equal(framing.length, rows[i].length);
        }
    }
}

/* The body that is in it; -1: malformed, -2: not whole. `ret_rest`: what is behind it. */
static int dechunk(struct text text, size_t step, char *ret, size_t *ret_rest)
{
    struct http_chunks chunks = {0};
    size_t length = 0, at = 0;
    while (at < text.size && !http_chunks_ended(&chunks)) {
        size_t piece, size = text.size - at < step ? text.size - at : step;
        ssize_t n = http_chunks_take(&chunks, text.data + at, size, &piece);
        if (n < 0) {
            return -1;
        }
        assert_true(n > 0 && (size_t)n <= size && piece <= (size_t)n);
        at += (size_t)n;
        memcpy(ret + length, text.data + at - piece, piece);
        length += piece;
    }
    *ret_rest = text.size - at;
    return http_chunks_ended(&chunks) ? (int)length : -2;
}

static void reads_chunks(void **state)
{
    (void)state;
    static const struct {
        struct text text;
        const char *body;
        size_t rest;
    } rows[] = {
        {TEXT("0\r\n\r\n"), "", 0},
        {TEXT("3\r\nabc\r\n0\r\n\r\nGET"), "abc", 3},
        {TEXT("00000000000000A\r\n0123456789\r\n1;a=\"b\"\r\nx\r\n0;\r\nA: b\r\nB:\r\n\r\n"), "0123456789x",
         0},
    };
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        for (size_t step = 1; step <= rows[i].text.size; step++) {
            char body[64] = "";
            size_t rest;
            assert_int_equal(dechunk(rows[i].text, step, body, &rest), strlen(rows[i].body));
            assert_string_equal(body, rows[i].body);
            assert_int_equal(rest, rows[i].rest);
        }
    }
}

static void refuses_bad_chunks(void **state)
{
    (void)state;
    static const struct text rows[] = {
        TEXT("\r\n"),           TEXT("x"),           TEXT(" 1\r\na"),
        TEXT("1 \r\na"),        TEXT("0x1\r\na"),    TEXT("+1\r\na"),
        TEXT("-1\r\na"),        TEXT("1\na"),        TEXT("1\ra"),
        TEXT("1;a\nb"),         TEXT("1;a\0b\r\nc"), TEXT("1\r\nab"),
        TEXT("1\r\na\n"),       TEXT("1\r\na\r\r"),  TEXT(";a\r\n"),
        TEXT("1\r\na\r\n\r\n"), TEXT("0\r\nA\r\n"),  TEXT("0\r\n:\r\n"),
        TEXT("0\r\n A: b\r\n"), TEXT("0\r\nA: b\n"), TEXT("0\r\nA: b\0\r\n"),
        TEXT("0\r\n\rx"),       TEXT("0\r\n\n"),     TEXT("00000000000000001\r\na"),
    };
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        for (size_t step = 1; step <= rows[i].size; step++) {
            char body[64];
            size_t rest;
            if (dechunk(rows[i], step, body, &rest) != -1) {
                fail_msg("row %zu", i);
            }
        }
    }
}

static void limits_what_is_no_body(void **state)
{
    (void)state;
    static const char *const beginnings[] = {"1;", "0\r\nA:"};
    for (size_t i = 0; i < ARRAY_SIZE(beginnings); i++) {
        struct http_chunks chunks = {0};
        size_t piece, taken = 0;
        ssize_t n = http_chunks_take(&chunks, beginnings[i], strlen(beginnings[i]), &piece);
        while (n > 0 && taken < 10000) {
            taken++;
            n = http_chunks_take(&chunks, "a", 1, &piece);
        }
        assert_int_equal(n, -1);
        assert_in_range(taken, 250, 4100);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(takes_what_is_well_formed),
        cmocka_unit_test(refuses_what_is_not),
        cmocka_unit_test(waits_for_the_whole_head),
        cmocka_unit_test(tells_what_it_says),
        cmocka_unit_test(limits_the_number_of_headers),
        cmocka_unit_test(tells_how_the_body_ends),
        cmocka_unit_test(reads_chunks),
        cmocka_unit_test(refuses_bad_chunks),
        cmocka_unit_test(limits_what_is_no_body),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
