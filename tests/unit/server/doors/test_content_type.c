/* server/doors/content_type.c: by extension, else by content. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "jail/base/cleanup.h"
#include "server/doors/content_type.h"

static void goes_by_extension(void **state)
{
    (void)state;
    static const struct {
        const char *name, *type;
    } rows[] = {
        {"a.png", "image/png"},
        {"a.PNG", "image/png"},
        {"a.jpg", "image/jpeg"},
        {"a.Jpeg", "image/jpeg"},
        {"a.gif", "image/gif"},
        {"a.webp", "image/webp"},
        {"a.svg", "image/svg+xml"},
        {"a.pdf", "application/pdf"},
        {"a.csv", "text/csv"},
        {"a.json", "application/json"},
        {"a.html", "text/html"},
        {"a.htm", "text/html"},
        {"a.txt", "text/plain"},
        {"a.log", "text/plain"},
        {"a.md", "text/markdown"},
        {"a.zip", "application/zip"},
        {"d.x/b.tar.zip", "application/zip"},
        {".png", "image/png"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        assert_string_equal(mime_of(NULL, rows[i].name, "\xff\x00", 2), rows[i].type);
    }
}

static void goes_by_content_otherwise(void **state)
{
    (void)state;
    static const struct {
        const char *name, *content;
        size_t size;
        const char *type;
    } rows[] = {
        {"a", "text", 4, "text/plain"},
        {"a.", "text", 4, "text/plain"},
        {"a.xyz", "\xc3\xa4", 2, "text/plain"},
        {"a.png/b", "text", 4, "text/plain"}, /* the directory's name does not count */
        {"a", "", 0, "text/plain"},
        {"a", "a\0b", 3, "application/octet-stream"},
        {"a", "\xff\xfe", 2, "application/octet-stream"},
        {"a", "ab\xe2\x82", 4, "text/plain"}, /* a character cut off with the rest of the file */
        {"a", NULL, 0, "application/octet-stream"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        assert_string_equal(mime_of(NULL, rows[i].name, rows[i].content, rows[i].size), rows[i].type);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(goes_by_extension),
        cmocka_unit_test(goes_by_content_otherwise),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
