/* server/front/console.c: the files of server/console are all there, as they are, and small. */
#include "server/front/console.h"

#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "jail/base/buf.h"
#include "jail/base/io.h"

#define ALL_BYTES_MAX (150u << 10)

static void every_file_is_in_the_program(void **state)
{
    (void)state;
    size_t all = 0, n = 0;
    DIR *directory = opendir("server/console");
    assert_non_null(directory);
    for (const struct dirent *entry; (entry = readdir(directory));) {
        struct console_file file;
        struct buf text = BUF_INIT;
        if (entry->d_name[0] == '.' || strcmp(entry->d_name, "README.md") == 0) {
            assert_null(console_find(entry->d_name, &file));
            continue;
        }
        assert_non_null(console_find(entry->d_name, &file));
        assert_string_equal(file.name, entry->d_name);
        assert_int_equal(io_read_file_at(dirfd(directory), entry->d_name, ALL_BYTES_MAX, &text), 0);
        assert_int_equal(file.size, text.len);
        assert_memory_equal(file.data, text.data, text.len);
        all += file.size;
        n++;
        buf_free(&text);
    }
    closedir(directory);
    assert_true(n > 5 && all <= ALL_BYTES_MAX);
}

static void other_names_are_none(void **state)
{
    (void)state;
    static const char *const names[] = {
        "", "/", ".", "..", "Main.js", "main.js/", "main.js ", "../front/openapi.json", "%6dain.js"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct console_file file;
        assert_null(console_find(names[i], &file));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_file_is_in_the_program),
        cmocka_unit_test(other_names_are_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
