/* server/doors/multipart.c: bodies of multipart/form-data. What is malformed is held by
 * tests/api/test_librechat.py, too; here, that nothing behind the body's end is looked at. */
#include "server/doors/multipart.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "jail/base/err.h"

#define TYPE "multipart/form-data; boundary=b"
#define HEAD "--b\r\nContent-Disposition: form-data; name=\"f\"; filename=\"x\"\r\n\r\n"

/* All parts of a body that ends where its memory does. Returns what the last one gave. */
static int read_all(const char *type, const char *text, size_t size, size_t *ret_parts,
                    struct multipart_part *ret_last)
{
    struct multipart multipart;
    struct multipart_part part;
    char *body = malloc(size + (size == 0));
    assert_non_null(body);
    memcpy(body, text, size);
    int r = multipart_begin(&multipart, type, body, size, NULL);
    *ret_parts = 0;
    while (r == 0 && (r = multipart_next(&multipart, &part, NULL)) == 1) {
        r = 0;
        ++*ret_parts;
        assert_in_range((size_t)(part.data - body), 0, size);
        assert_in_range((size_t)(part.data - body) + part.size, 0, size);
        *ret_last = part;
        ret_last->data = text + (part.data - body);
    }
    free(body);
    return r;
}

static void test_parts(void **state)
{
    (void)state;
    static const char *const types[] = {
        TYPE,
        "Multipart/Form-Data;boundary=\"b\"",
        "multipart/form-data; charset=utf-8; Boundary=b",
    };
    static const char text[] = "--b\r\ncontent-disposition:form-data; name=a\r\n\r\nfor whom\r\n"
                               "--b \t\r\nContent-Type: text/csv\r\nContent-Transfer-Encoding: binary\r\n"
                               "Content-Disposition: form-data; filename=\"a \\\"b\\\\ \xc3\xa9\"; "
                               "name=\"f\"\r\n\r\n\r\n--a\r\n-\r\n--b--\r\n";
    for (size_t i = 0; i < 3; i++) {
        struct multipart_part last;
        size_t n;
        assert_int_equal(read_all(types[i], text, sizeof text - 1, &n, &last), 0);
        assert_int_equal(n, 2);
        assert_string_equal(last.name, "f");
        assert_string_equal(last.filename, "a \"b\\ \xc3\xa9");
        assert_int_equal(last.size, 8);
        assert_memory_equal(last.data, "\r\n--a\r\n-", 8);
    }
}

static void test_empty(void **state)
{
    (void)state;
    static const char *const texts[] = {HEAD "\r\n--b--", HEAD "--b--\r\n"};
    struct multipart_part last;
    size_t n;
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(read_all(TYPE, texts[i], strlen(texts[i]), &n, &last), 0);
        assert_int_equal(n, 1);
        assert_int_equal(last.size, 0);
    }
    assert_int_equal(read_all(TYPE, "--b--", 5, &n, &last), 0);
    assert_int_equal(n, 0);
}

/* Whatever is cut off, wherever. */
static void test_cut_off(void **state)
{
    (void)state;
    static const char text[] = HEAD "data\r\n" HEAD "\r\n--b--";
    struct multipart_part last;
    size_t n;
    for (size_t size = 0; size < sizeof text - 1; size++) {
        assert_true(read_all(TYPE, text, size, &n, &last) < 0);
    }
    assert_int_equal(read_all(TYPE, text, sizeof text - 1, &n, &last), 0);
    assert_int_equal(n, 2);
}

static void test_malformed(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "\r\n" HEAD "x\r\n--b--",
        HEAD "x\r\n--bb\r\n\r\n--b--",
        HEAD "x\r\n--b--\r\n\r\n",
        "--b\r\nContent-Disposition: form-data\r\n\r\nx\r\n--b--",
        "--b\r\nContent-Disposition: attachment; name=f\r\n\r\nx\r\n--b--",
        "--b\r\nContent-Disposition: form-data; name=f; name=g\r\n\r\nx\r\n--b--",
        "--b\r\nContent-Disposition: form-data; name=f; filename=\"\"\r\n\r\nx\r\n--b--",
        "--b\r\nContent-Disposition: form-data; name=f; filename*=utf-8''x\r\n\r\nx\r\n--b--",
        "--b\r\nContent-Disposition: form-data; name=f; filename=\"a\x01\"\r\n\r\nx\r\n--b--",
        "--b\r\nContent-Disposition: form-data; name=f; filename=\"a\xff\"\r\n\r\nx\r\n--b--",
        "--b\r\nContent-Disposition: form-data; name=f\r\nContent-Disposition: form-data\r\n\r\n--b--",
        "--b\r\nContent-Disposition: form-data; name=f\r\n folded\r\n\r\nx\r\n--b--",
        "--b\r\n: form-data; name=f\r\n\r\nx\r\n--b--",
        "--b\r\n\r\nx\r\n--b--",
    };
    struct multipart_part last;
    size_t n;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        if (read_all(TYPE, texts[i], strlen(texts[i]), &n, &last) >= 0) {
            fail_msg("taken: %s", texts[i]);
        }
    }
}

static void test_types(void **state)
{
    (void)state;
    static const char *const types[] = {
        NULL,
        "",
        "application/json; boundary=b",
        "multipart/form-data",
        "multipart/form-data; boundary=",
        "multipart/form-data; boundary=\"b",
        "multipart/form-data; boundary=\"b\\\"\"",
        "multipart/form-data; boundary=b\x01",
        "multipart/form-datas; boundary=b",
    };
    struct multipart_part last;
    size_t n;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        if (read_all(types[i], HEAD "\r\n--b--", strlen(HEAD "\r\n--b--"), &n, &last) >= 0) {
            fail_msg("taken: %s", types[i] ? types[i] : "(none)");
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parts),     cmocka_unit_test(test_empty), cmocka_unit_test(test_cut_off),
        cmocka_unit_test(test_malformed), cmocka_unit_test(test_types),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
