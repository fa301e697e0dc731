/* server/cli/options.c: the table parses, refuses by name, and prints itself. */
#include "server/cli/options.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "jail/base/cleanup.h"
#include "jail/base/err.h"

struct target {
    bool loud;
    const char *name;
    uint64_t count, bytes, ms;
    struct option_list items;
};

static const struct option_row rows[] = {
    {"--loud", NULL, "be loud", OPTION_SWITCH, offsetof(struct target, loud)},
    {"--name", "NAME", "a name", OPTION_TEXT, offsetof(struct target, name)},
    {"--count", "N", "a number", OPTION_NUMBER, offsetof(struct target, count)},
    {"--bytes", "BYTES", "an amount", OPTION_BYTES, offsetof(struct target, bytes)},
    {"--ms", "MS", "a time", OPTION_MS, offsetof(struct target, ms)},
    {"--item", "X", "again and again", OPTION_LIST, offsetof(struct target, items)},
};
static const struct option_table table = {.command = "test",
                                          .synopsis = "[OPTION...]",
                                          .about = "About.",
                                          .examples = "immure test --loud\nimmure test --ms 5s\n",
                                          .rows = rows,
                                          .n_rows = ARRAY_SIZE(rows)};
static const struct option_table stopping = {.command = "test",
                                             .synopsis = "[OPTION...]",
                                             .about = "About.",
                                             .rows = rows,
                                             .n_rows = ARRAY_SIZE(rows),
                                             .stop_at_argument = true};

/* Words that end with NULL become an argument vector as main() gets it. */
struct words {
    int argc;
    char *argv[OPTION_LIST_MAX + 8];
};

static struct words make_words(const char *const *text)
{
    struct words words = {.argc = 0};
    while (text[words.argc]) {
        words.argv[words.argc] = (char *)(uintptr_t)text[words.argc];
        words.argc++;
    }
    return words;
}
#define WORDS(...) make_words((const char *const[]){"test", __VA_ARGS__, NULL})

static void test_every_kind(void **state)
{
    (void)state;
    struct target target = {0};
    int n = -1;
    struct words words =
        WORDS("--loud", "--name", "x", "--count=18446744073709551615", "--item", "a", "--item=b");
    assert_int_equal(options_parse(&table, words.argc, words.argv, &target, &n, NULL), 0);
    assert_int_equal(n, 0);
    assert_true(target.loud);
    assert_string_equal(target.name, "x");
    assert_true(target.count == UINT64_MAX);
    assert_int_equal(target.items.n, 2);
    assert_string_equal(target.items.items[1], "b");
}

static void test_units(void **state)
{
    (void)state;
    static const struct {
        const char *bytes, *ms;
        uint64_t bytes_are, ms_are;
    } cases[] = {{"7", "7", 7, 7},
                 {"2KiB", "5s", 2048, 5000},
                 {"1GiB", "500ms", 1u << 30, 500},
                 {"3B", "2m", 3, 120000}};
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct target target = {0};
        int n;
        struct words words = WORDS("--bytes", cases[i].bytes, "--ms", cases[i].ms);
        assert_int_equal(options_parse(&table, words.argc, words.argv, &target, &n, NULL), 0);
        assert_true(target.bytes == cases[i].bytes_are && target.ms == cases[i].ms_are);
    }
}

static void test_arguments_between_options(void **state)
{
    (void)state;
    struct target target = {0};
    struct words words = WORDS("one", "--loud", "two", "-", "--", "--name");
    int n = 0;
    assert_int_equal(options_parse(&table, words.argc, words.argv, &target, &n, NULL), 0);
    assert_int_equal(n, 4);
    assert_string_equal(words.argv[1], "one");
    assert_string_equal(words.argv[2], "two");
    assert_string_equal(words.argv[3], "-");
    assert_string_equal(words.argv[4], "--name");
    assert_true(target.loud);
    assert_null(target.name);
}

static void test_a_command_keeps_its_own_options(void **state)
{
    (void)state;
    struct target target = {0};
    struct words words = WORDS("--loud", "/bin/ls", "--name", "--help");
    int n = 0;
    assert_int_equal(options_parse(&stopping, words.argc, words.argv, &target, &n, NULL), 0);
    assert_int_equal(n, 3);
    assert_string_equal(words.argv[1], "/bin/ls");
    assert_string_equal(words.argv[2], "--name");
    assert_string_equal(words.argv[3], "--help");
}

static void test_help(void **state)
{
    (void)state;
    struct target target = {0};
    int n;
    struct words words = WORDS("--loud", "--help"), brief = WORDS("-h");
    assert_int_equal(options_parse(&table, words.argc, words.argv, &target, &n, NULL), OPTIONS_HELP);
    assert_int_equal(options_parse(&table, brief.argc, brief.argv, &target, &n, NULL), OPTIONS_HELP);
}

static void expect_refused(const char *argument, const char *value, const char *item, const char *text)
{
    struct target target = {0};
    struct err err = {0};
    int n;
    struct words words = WORDS(argument, value);
    assert_true(options_parse(&table, words.argc, words.argv, &target, &n, &err) < 0);
    assert_int_equal(err.kind, ERR_INVALID);
    assert_string_equal(err.item, item);
    assert_non_null(strstr(err.text, text));
}

static void test_refusals(void **state)
{
    (void)state;
    expect_refused("--nam", NULL, "--nam", "did you mean --name?");
    expect_refused("--zzzzzzzz", NULL, "--zzzzzzzz", "no such option");
    expect_refused("-x", NULL, "-x", "no such option");
    expect_refused("--name", NULL, "--name", "needs a value");
    expect_refused("--loud=yes", NULL, "--loud", "takes no value");
    expect_refused("--count", "-1", "--count", "not a whole number");
    expect_refused("--count", "1k", "--count", "not a whole number");
    expect_refused("--count", "18446744073709551616", "--count", "not a whole number");
    expect_refused("--count", "5s", "--count", "not a whole number");
    expect_refused("--bytes", "5s", "--bytes", "with a unit if need be (512MiB");
    expect_refused("--bytes", "1GB", "--bytes", "not a whole number");
    expect_refused("--ms", "1GiB", "--ms", "with a unit if need be (500ms");
    expect_refused("--ms", "0s", "--ms", "not a whole number from 1 up");
    expect_refused("--ms", "18446744073709551615h", "--ms", "not a whole number");
    expect_refused("--count", "0", "--count", "not a whole number from 1 up");
}

static void test_a_list_has_an_end(void **state)
{
    (void)state;
    struct target target = {0};
    struct err err = {0};
    struct words words = WORDS("--item=x");
    while (words.argc < OPTION_LIST_MAX + 2) {
        words.argv[words.argc++] = words.argv[1];
    }
    int n;
    assert_true(options_parse(&table, words.argc, words.argv, &target, &n, &err) < 0);
    assert_string_equal(err.item, "--item");
}

static void test_help_names_every_row(void **state)
{
    (void)state;
    char *text = NULL;
    size_t size = 0;
    FILE *to = open_memstream(&text, &size);
    options_print_help(&table, to);
    fclose(to);
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        assert_non_null(strstr(text, rows[i].name));
        assert_non_null(strstr(text, rows[i].help));
    }
    assert_non_null(strstr(text, "usage: immure test [OPTION...]"));
    assert_non_null(strstr(text, "\nexamples:\n  immure test --loud\n  immure test --ms 5s\n"));
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_kind),
        cmocka_unit_test(test_units),
        cmocka_unit_test(test_arguments_between_options),
        cmocka_unit_test(test_a_command_keeps_its_own_options),
        cmocka_unit_test(test_help),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_a_list_has_an_end),
        cmocka_unit_test(test_help_names_every_row),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
