/* server/http_syntax.c: what is refused of a request's line and headers, on requests as libmicrohttpd leaves
 * them: cut in place, a NUL for each byte that separated. */
#include "server/http_syntax.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Cuts the text as the library does, and checks it. */
static bool check_n(const char *text, size_t size, bool in_place)
{
    char data[512] = "";
    struct http_syntax syntax;
    assert_true(size < sizeof data);
    memcpy(data, text, size);
    char *path = memchr(data, ' ', size);
    char *line_end = strpbrk(data, "\r\n");
    if (!path || !line_end) {
        fail();
        return false;
    }
    *path++ = '\0';
    path += strspn(path, " ");
    char *version = strchr(path, ' ');
    assert_non_null(version);
    *version++ = '\0';
    char *at = line_end;
    if (*at == '\r') {
        *at++ = '\0';
    }
    *at++ = '\0';
    http_syntax_begin(&syntax, data, path, path + strlen(path), version, in_place);
    while (at < data + size && *at != '\r' && *at != '\n') {
        char *end = memchr(at, '\n', size - (size_t)(at - data));
        char *colon = memchr(at, ':', size - (size_t)(at - data));
        assert_true(end && colon);
        char *value = colon + 1 + (colon[1] == ' ');
        char *value_end = end > data && end[-1] == '\r' ? end - 1 : end;
        *end = *value_end = *colon = '\0';
        http_syntax_header(&syntax, at, (size_t)(colon - at), value, (size_t)(value_end - value));
        at = end + 1;
    }
    memset(at, '\0', strspn(at, "\r\n"));
    return http_syntax_end(&syntax, size);
}

#define CHECK(text, in_place) check_n(text, sizeof(text) - 1, in_place)

static void takes_what_is_well_formed(void **state)
{
    (void)state;
    for (int in_place = 0; in_place < 2; in_place++) {
        assert_true(CHECK("GET / HTTP/1.1\r\nHost: x\r\n\r\n", in_place));
        assert_true(CHECK("GET / HTTP/1.0\r\n\r\n", in_place));
        assert_true(CHECK("GET / HTTP/1.0\r\nHost: x\r\n\r\n", in_place));
        assert_true(CHECK("M-SEARCH /a%20b HTTP/1.1\r\nhOST:x\r\nA: \r\nB:c\td\x80\r\n\r\n", in_place));
        assert_true(CHECK("POST /x HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n", in_place));
    }
}

static void refuses_what_is_not(void **state)
{
    (void)state;
    for (int in_place = 0; in_place < 2; in_place++) {
        assert_false(CHECK("GET / HTTP/1.1\r\n\r\n", in_place));
        assert_false(CHECK("GET / HTTP/1.1\r\nHost: x\r\nHost: x\r\n\r\n", in_place));
        assert_false(CHECK("GET / HTTP/1.2\r\nHost: x\r\n\r\n", in_place));
        assert_false(CHECK("GET / http/1.1\r\nHost: x\r\n\r\n", in_place));
        assert_false(CHECK("G(T / HTTP/1.1\r\nHost: x\r\n\r\n", in_place));
        assert_false(CHECK("GET http://x/ HTTP/1.1\r\nHost: x\r\n\r\n", in_place));
        assert_false(CHECK("OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n", in_place));
        assert_false(CHECK("GET /\x80 HTTP/1.1\r\nHost: x\r\n\r\n", in_place));
        assert_false(CHECK("GET / HTTP/1.1\r\nHost: x\r\nA : b\r\n\r\n", in_place));
        assert_false(CHECK("GET / HTTP/1.1\r\nHost: x\r\n: b\r\n\r\n", in_place));
        assert_false(CHECK("GET / HTTP/1.1\r\nHost: x\r\nA(: b\r\n\r\n", in_place));
        assert_false(CHECK("GET / HTTP/1.1\r\nHost: x\r\nA: b\rc\r\n\r\n", in_place));
        assert_false(CHECK("GET / HTTP/1.1\r\nHost: x\r\nA: b\x7f\r\n\r\n", in_place));
        assert_false(CHECK("GET / HTTP/1.1\r\nHost: x\r\nA: b\0c\r\n\r\n", in_place));
        assert_false(CHECK("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", in_place));
    }
}

static void tells_line_ends_apart_where_it_can(void **state)
{
    (void)state;
    assert_false(CHECK("GET / HTTP/1.1\nHost: x\r\n\r\n", true));
    assert_false(CHECK("GET / HTTP/1.1\r\nHost: x\nA: b\r\n\r\n", true));
    assert_false(CHECK("GET / HTTP/1.1\r\nHost: x\r\nA: b\n\r\n", true));
    assert_false(CHECK("GET / HTTP/1.1\r\nHost: x\r\nA: b\r\n\n", true));
    assert_false(CHECK("GET  / HTTP/1.1\r\nHost: x\r\n\r\n", true));
    assert_true(CHECK("GET / HTTP/1.1\nHost: x\n\n", false)); /* the library refuses it by itself */
}

/* To the library a value ends at its first NUL. */
static void refuses_what_hides_behind_the_last_value(void **state)
{
    (void)state;
    static const char line[] = "GET\0/\0HTTP/1.1\0\0Host\0 x\0\"\0";
    for (int in_place = 0; in_place < 2; in_place++) {
        struct http_syntax syntax;
        http_syntax_begin(&syntax, line, line + 4, line + 5, line + 6, in_place);
        http_syntax_header(&syntax, line + 16, 4, line + 22, 1);
        assert_int_equal(http_syntax_end(&syntax, sizeof line), !in_place);
    }
}

/* The library gives a value that went on in the next line another place. */
static void refuses_values_from_elsewhere(void **state)
{
    (void)state;
    static const char line[] = "GET\0/\0HTTP/1.1\0\0Host\0 x\0\0\0";
    static const char elsewhere[] = "A\0 b";
    for (int in_place = 0; in_place < 2; in_place++) {
        struct http_syntax syntax;
        http_syntax_begin(&syntax, line, line + 4, line + 5, line + 6, in_place);
        http_syntax_header(&syntax, line + 16, 4, line + 22, 1);
        http_syntax_header(&syntax, elsewhere, 1, elsewhere + 3, 1);
        assert_int_equal(http_syntax_end(&syntax, sizeof line), !in_place);
    }
}

/* To a proxy "/a\0b" is no "/a". */
static void refuses_a_nul_in_the_target(void **state)
{
    (void)state;
    char line[] = "GET\0/a\0b\0HTTP/1.0";
    struct http_syntax syntax;
    http_syntax_begin(&syntax, line, line + 4, line + 6, line + 9, true);
    assert_true(syntax.broken);
    assert_true(http_syntax_is_target("/a?b=c"));
    assert_false(http_syntax_is_target("/a?b=\x01"));
    assert_false(http_syntax_is_target("a"));
    assert_false(http_syntax_is_target(""));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(takes_what_is_well_formed),
        cmocka_unit_test(refuses_what_is_not),
        cmocka_unit_test(tells_line_ends_apart_where_it_can),
        cmocka_unit_test(refuses_what_hides_behind_the_last_value),
        cmocka_unit_test(refuses_values_from_elsewhere),
        cmocka_unit_test(refuses_a_nul_in_the_target),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
